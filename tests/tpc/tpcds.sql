-- 26 queries that ask what queries of TPC-DS ask, of twelve of its tables. Spark and DuckDB take each as it stands.

-- customers who return more than others at a store
WITH totals AS (
    SELECT sr_customer_sk AS customer, sr_store_sk AS store, sum(sr_return_amt) AS amount
    FROM d.store_returns JOIN d.date_dim ON d_date_sk = sr_returned_date_sk
    WHERE d_year = 2001
    GROUP BY sr_customer_sk, sr_store_sk
)
SELECT c_customer_id, t.amount
FROM totals t
JOIN d.customer ON c_customer_sk = t.customer
WHERE t.amount > (SELECT avg(o.amount) * 1.2 FROM totals o WHERE o.store = t.store)
ORDER BY c_customer_id, t.amount
LIMIT 100;

-- sales of a weekday against the year before
WITH daily AS (
    SELECT d_week_seq AS week, d_year AS year,
        sum(CASE WHEN d_day_name = 'Sunday' THEN price END) AS sunday,
        sum(CASE WHEN d_day_name = 'Friday' THEN price END) AS friday
    FROM (
        SELECT ws_sold_date_sk AS sold, ws_ext_sales_price AS price FROM d.web_sales
        UNION ALL
        SELECT ss_sold_date_sk, ss_ext_sales_price FROM d.store_sales
    ) sales JOIN d.date_dim ON d_date_sk = sold
    GROUP BY d_week_seq, d_year
)
SELECT b.week, round(a.sunday / b.sunday, 2) AS sundays, round(a.friday / b.friday, 2) AS fridays
FROM daily a JOIN daily b ON a.week = b.week + 53
WHERE a.year = 2002 AND b.year = 2001
ORDER BY b.week;

-- brands of a manager in a month
SELECT d_year, i_brand_id, i_brand, sum(ss_ext_sales_price) AS price
FROM d.date_dim
JOIN d.store_sales ON ss_sold_date_sk = d_date_sk
JOIN d.item ON i_item_sk = ss_item_sk
WHERE d_moy = 11 AND i_manager_id <= 20
GROUP BY d_year, i_brand_id, i_brand
ORDER BY d_year, price DESC, i_brand_id
LIMIT 100;

-- averages of items in promotions that are not by mail
SELECT i_item_id, avg(ss_quantity) AS quantity, avg(ss_list_price) AS list_price, avg(ss_coupon_amt) AS coupon
FROM d.store_sales
JOIN d.item ON i_item_sk = ss_item_sk
JOIN d.promotion ON p_promo_sk = ss_promo_sk
WHERE p_channel_email = 'N' OR p_channel_event = 'N'
GROUP BY i_item_id
ORDER BY i_item_id
LIMIT 100;

-- share of an item in the revenue of its class
SELECT i_item_id, i_class, i_category, sum(ws_ext_sales_price) AS revenue,
    sum(ws_ext_sales_price) * 100 / sum(sum(ws_ext_sales_price)) OVER (PARTITION BY i_class) AS share
FROM d.web_sales
JOIN d.item ON i_item_sk = ws_item_sk
JOIN d.date_dim ON d_date_sk = ws_sold_date_sk
WHERE i_category IN ('Sports', 'Books', 'Home') AND d_date BETWEEN DATE '1999-01-01' AND DATE '1999-12-31'
GROUP BY i_item_id, i_class, i_category
ORDER BY i_category, i_class NULLS FIRST, i_item_id;

-- brands that all channels sell
SELECT i_brand_id, i_class_id, i_category_id
FROM d.store_sales JOIN d.item ON i_item_sk = ss_item_sk JOIN d.date_dim ON d_date_sk = ss_sold_date_sk
WHERE d_year BETWEEN 1999 AND 2001
INTERSECT
SELECT i_brand_id, i_class_id, i_category_id
FROM d.web_sales JOIN d.item ON i_item_sk = ws_item_sk JOIN d.date_dim ON d_date_sk = ws_sold_date_sk
WHERE d_year BETWEEN 1999 AND 2001
ORDER BY 1 NULLS FIRST, 2 NULLS FIRST, 3 NULLS FIRST;

-- spread of quantities that were sold and returned
SELECT i_item_id, count(ss_quantity) AS sold, avg(ss_quantity) AS mean, stddev_samp(ss_quantity) AS deviation,
    stddev_samp(ss_quantity) / avg(ss_quantity) AS spread, avg(sr_return_quantity) AS returned
FROM d.store_sales
JOIN d.store_returns ON ss_customer_sk = sr_customer_sk AND ss_item_sk = sr_item_sk AND ss_ticket_number = sr_ticket_number
JOIN d.item ON i_item_sk = ss_item_sk
GROUP BY i_item_id
HAVING count(ss_quantity) > 1
ORDER BY i_item_id
LIMIT 100;

-- stock by product, brand, class and category
SELECT i_category, i_class, i_brand, avg(inv_quantity_on_hand) AS quantity
FROM d.inventory
JOIN d.date_dim ON d_date_sk = inv_date_sk
JOIN d.item ON i_item_sk = inv_item_sk
WHERE d_month_seq BETWEEN 1200 AND 1211
GROUP BY ROLLUP (i_category, i_class, i_brand)
ORDER BY quantity, i_category NULLS FIRST, i_class NULLS FIRST, i_brand NULLS FIRST
LIMIT 100;

-- averages by item and state with totals
SELECT i_item_id, s_state, grouping(s_state) AS is_total, avg(ss_quantity) AS quantity, avg(ss_sales_price) AS price
FROM d.store_sales
JOIN d.store ON s_store_sk = ss_store_sk
JOIN d.item ON i_item_sk = ss_item_sk
JOIN d.date_dim ON d_date_sk = ss_sold_date_sk
WHERE d_year = 2002
GROUP BY ROLLUP (i_item_id, s_state)
ORDER BY i_item_id NULLS FIRST, s_state NULLS FIRST
LIMIT 100;

-- customers with many items in a ticket
SELECT c_last_name, c_first_name, c_salutation, c_preferred_cust_flag, t.ss_ticket_number, t.items
FROM (
    SELECT ss_ticket_number, ss_customer_sk, count(*) AS items
    FROM d.store_sales
    JOIN d.date_dim ON d_date_sk = ss_sold_date_sk
    JOIN d.household_demographics ON hd_demo_sk = ss_hdemo_sk
    WHERE (d_dom BETWEEN 1 AND 3 OR d_dom BETWEEN 25 AND 28) AND hd_vehicle_count > 0
        AND CASE WHEN hd_vehicle_count > 0 THEN hd_dep_count * 1.0 / hd_vehicle_count END > 1.2
    GROUP BY ss_ticket_number, ss_customer_sk
) t
JOIN d.customer ON c_customer_sk = t.ss_customer_sk
WHERE t.items BETWEEN 10 AND 20
ORDER BY c_last_name NULLS FIRST, c_first_name NULLS FIRST, t.ss_ticket_number
LIMIT 200;

-- ranks of margins within a category
SELECT i_category, i_class, grouping(i_category) + grouping(i_class) AS level,
    sum(ss_net_profit) / sum(ss_ext_sales_price) AS margin,
    rank() OVER (
        PARTITION BY grouping(i_category) + grouping(i_class), CASE WHEN grouping(i_class) = 0 THEN i_category END
        ORDER BY sum(ss_net_profit) / sum(ss_ext_sales_price)
    ) AS place
FROM d.store_sales
JOIN d.date_dim ON d_date_sk = ss_sold_date_sk
JOIN d.item ON i_item_sk = ss_item_sk
WHERE d_year = 2001
GROUP BY ROLLUP (i_category, i_class)
ORDER BY level DESC, i_category NULLS FIRST, place, i_class NULLS FIRST;

-- customers who bought on one day in both channels
SELECT count(*) AS customers
FROM (
    SELECT DISTINCT c_last_name, c_first_name, d_date
    FROM d.store_sales JOIN d.date_dim ON d_date_sk = ss_sold_date_sk JOIN d.customer ON c_customer_sk = ss_customer_sk
    INTERSECT
    SELECT DISTINCT c_last_name, c_first_name, d_date
    FROM d.web_sales JOIN d.date_dim ON d_date_sk = ws_sold_date_sk JOIN d.customer ON c_customer_sk = ws_bill_customer_sk
) both_channels;

-- customers who bought in stores only
SELECT count(*) AS customers
FROM (
    SELECT DISTINCT c_last_name, c_first_name, d_month_seq
    FROM d.store_sales JOIN d.date_dim ON d_date_sk = ss_sold_date_sk JOIN d.customer ON c_customer_sk = ss_customer_sk
    EXCEPT
    SELECT DISTINCT c_last_name, c_first_name, d_month_seq
    FROM d.web_sales JOIN d.date_dim ON d_date_sk = ws_sold_date_sk JOIN d.customer ON c_customer_sk = ws_bill_customer_sk
) stores_only;

-- sales by day of the week
SELECT s_store_name, s_store_id,
    sum(CASE WHEN d_day_name = 'Sunday' THEN ss_sales_price END) AS sunday,
    sum(CASE WHEN d_day_name = 'Monday' THEN ss_sales_price END) AS monday,
    sum(CASE WHEN d_day_name = 'Saturday' THEN ss_sales_price END) AS saturday
FROM d.date_dim
JOIN d.store_sales ON ss_sold_date_sk = d_date_sk
JOIN d.store ON s_store_sk = ss_store_sk
WHERE d_year = 2000
GROUP BY s_store_name, s_store_id
ORDER BY s_store_name, s_store_id;

-- best and worst items
WITH profits AS (
    SELECT ss_item_sk AS item, avg(ss_net_profit) AS profit FROM d.store_sales GROUP BY ss_item_sk
), ranks AS (
    SELECT item, row_number() OVER (ORDER BY profit, item) AS lowest,
        row_number() OVER (ORDER BY profit DESC, item) AS highest
    FROM profits
)
SELECT a.lowest AS place, worst.i_product_name AS worst, best.i_product_name AS best
FROM ranks a
JOIN ranks b ON a.lowest = b.highest
JOIN d.item worst ON worst.i_item_sk = a.item
JOIN d.item best ON best.i_item_sk = b.item
WHERE a.lowest <= 10
ORDER BY place;

-- months far from the average of the year
WITH monthly AS (
    SELECT i_category, s_store_name, d_year, d_moy, sum(ss_sales_price) AS price,
        avg(sum(ss_sales_price)) OVER (PARTITION BY i_category, s_store_name, d_year) AS mean,
        lag(sum(ss_sales_price)) OVER (PARTITION BY i_category, s_store_name ORDER BY d_year, d_moy) AS before,
        lead(sum(ss_sales_price)) OVER (PARTITION BY i_category, s_store_name ORDER BY d_year, d_moy) AS after
    FROM d.item
    JOIN d.store_sales ON ss_item_sk = i_item_sk
    JOIN d.date_dim ON d_date_sk = ss_sold_date_sk
    JOIN d.store ON s_store_sk = ss_store_sk
    WHERE i_category IS NOT NULL
    GROUP BY i_category, s_store_name, d_year, d_moy
)
SELECT i_category, s_store_name, d_year, d_moy, price, mean, before, after
FROM monthly
WHERE d_year = 2000 AND mean > 0 AND abs(price - mean) / mean > 0.1
ORDER BY i_category, s_store_name, d_moy;

-- running totals of both channels
WITH web AS (
    SELECT d_date AS day, sum(ws_sales_price) AS price
    FROM d.web_sales JOIN d.date_dim ON d_date_sk = ws_sold_date_sk WHERE d_month_seq BETWEEN 1200 AND 1202 GROUP BY d_date
), stores AS (
    SELECT d_date AS day, sum(ss_sales_price) AS price
    FROM d.store_sales JOIN d.date_dim ON d_date_sk = ss_sold_date_sk WHERE d_month_seq BETWEEN 1200 AND 1202 GROUP BY d_date
)
SELECT coalesce(web.day, stores.day) AS day,
    sum(web.price) OVER (ORDER BY coalesce(web.day, stores.day)) AS web_so_far,
    max(stores.price) OVER (ORDER BY coalesce(web.day, stores.day) ROWS BETWEEN 6 PRECEDING AND CURRENT ROW) AS best_of_week
FROM web FULL JOIN stores ON web.day = stores.day
ORDER BY day;

-- items that bring little
SELECT s_store_name, i_item_id, r.revenue
FROM (
    SELECT ss_store_sk AS store, ss_item_sk AS item, sum(ss_sales_price) AS revenue
    FROM d.store_sales GROUP BY ss_store_sk, ss_item_sk
) r
JOIN (
    SELECT store, avg(revenue) AS mean
    FROM (
        SELECT ss_store_sk AS store, sum(ss_sales_price) AS revenue
        FROM d.store_sales GROUP BY ss_store_sk, ss_item_sk
    ) GROUP BY store
) m ON m.store = r.store
JOIN d.store ON s_store_sk = r.store
JOIN d.item ON i_item_sk = r.item
WHERE r.revenue <= 0.3 * m.mean
ORDER BY s_store_name, i_item_id, r.revenue
LIMIT 100;

-- best sellers at each level of a roll-up
SELECT *
FROM (
    SELECT i_category, i_class, d_year, d_qoy, sales,
        rank() OVER (PARTITION BY i_category ORDER BY sales DESC) AS place
    FROM (
        SELECT i_category, i_class, d_year, d_qoy, sum(coalesce(ss_sales_price * ss_quantity, 0)) AS sales
        FROM d.store_sales
        JOIN d.date_dim ON d_date_sk = ss_sold_date_sk
        JOIN d.item ON i_item_sk = ss_item_sk
        GROUP BY ROLLUP (i_category, i_class, d_year, d_qoy)
    )
)
WHERE place <= 5
ORDER BY i_category NULLS FIRST, place, i_class NULLS FIRST, d_year NULLS FIRST, d_qoy NULLS FIRST;

-- shoppers away from home
SELECT c_last_name, c_first_name, ca_city, t.bought_city, t.ticket, t.amount
FROM (
    SELECT ss_ticket_number AS ticket, ss_customer_sk AS customer, ca_city AS bought_city, sum(ss_coupon_amt) AS amount
    FROM d.store_sales
    JOIN d.date_dim ON d_date_sk = ss_sold_date_sk
    JOIN d.customer_address ON ca_address_sk = ss_addr_sk
    WHERE d_dow IN (6, 0) AND d_year IN (1999, 2000, 2001)
    GROUP BY ss_ticket_number, ss_customer_sk, ss_addr_sk, ca_city
) t
JOIN d.customer ON c_customer_sk = t.customer
JOIN d.customer_address home ON home.ca_address_sk = c_current_addr_sk
WHERE home.ca_city <> t.bought_city
ORDER BY c_last_name NULLS FIRST, c_first_name NULLS FIRST, ca_city, t.bought_city, t.ticket
LIMIT 100;

-- counts of hours side by side
SELECT *
FROM (SELECT count(*) AS morning FROM d.store_sales WHERE ss_sold_time_sk BETWEEN 28800 AND 43199) a
CROSS JOIN (SELECT count(*) AS noon FROM d.store_sales WHERE ss_sold_time_sk BETWEEN 43200 AND 50399) b
CROSS JOIN (SELECT count(*) AS unknown FROM d.store_sales WHERE ss_sold_time_sk IS NULL) c;

-- what customers paid after their returns
SELECT customer, sum(paid) AS paid
FROM (
    SELECT ss_customer_sk AS customer,
        CASE WHEN sr_return_quantity IS NOT NULL THEN (ss_quantity - sr_return_quantity) * ss_sales_price
            ELSE ss_quantity * ss_sales_price END AS paid
    FROM d.store_sales
    LEFT JOIN d.store_returns ON sr_item_sk = ss_item_sk AND sr_ticket_number = ss_ticket_number
)
GROUP BY customer
ORDER BY paid NULLS FIRST, customer NULLS FIRST
LIMIT 100;

-- customers and items by channel
WITH stores AS (
    SELECT ss_customer_sk AS customer, ss_item_sk AS item FROM d.store_sales GROUP BY ss_customer_sk, ss_item_sk
), web AS (
    SELECT ws_bill_customer_sk AS customer, ws_item_sk AS item FROM d.web_sales GROUP BY ws_bill_customer_sk, ws_item_sk
)
SELECT sum(CASE WHEN web.customer IS NULL THEN 1 ELSE 0 END) AS stores_only,
    sum(CASE WHEN stores.customer IS NULL THEN 1 ELSE 0 END) AS web_only,
    sum(CASE WHEN stores.customer IS NOT NULL AND web.customer IS NOT NULL THEN 1 ELSE 0 END) AS both_channels
FROM stores FULL JOIN web ON web.customer = stores.customer AND web.item = stores.item;

-- orders from one warehouse that were shipped late
SELECT w_warehouse_name,
    count(DISTINCT ws_order_number) AS orders,
    sum(CASE WHEN ws_ship_date_sk - ws_sold_date_sk <= 30 THEN 1 ELSE 0 END) AS within_30_days,
    sum(CASE WHEN ws_ship_date_sk - ws_sold_date_sk BETWEEN 31 AND 60 THEN 1 ELSE 0 END) AS within_60_days,
    sum(ws_ext_ship_cost) AS cost
FROM d.web_sales
LEFT JOIN d.warehouse ON w_warehouse_sk = ws_warehouse_sk
GROUP BY w_warehouse_name
ORDER BY w_warehouse_name NULLS FIRST;

-- customers with a sale and no great return
SELECT ca_state, count(*) AS customers, min(c_birth_year) AS oldest, max(c_birth_year) AS youngest, avg(c_birth_year) AS mean
FROM d.customer c
JOIN d.customer_address ON ca_address_sk = c_current_addr_sk
WHERE EXISTS (SELECT * FROM d.web_sales WHERE ws_bill_customer_sk = c.c_customer_sk)
    AND NOT EXISTS (SELECT * FROM d.store_returns WHERE sr_customer_sk = c.c_customer_sk AND sr_return_quantity > 60)
    AND substr(ca_zip, 1, 1) IN ('1', '2', '3', '4', '5', '6', '7', '8', '9')
GROUP BY ca_state
ORDER BY ca_state NULLS FIRST;

-- channels in one report
SELECT channel, missing, d_year, d_qoy, i_category, count(*) AS sales, sum(price) AS price
FROM (
    SELECT 'store' AS channel, 'customer' AS missing, d_year, d_qoy, i_category, ss_ext_sales_price AS price
    FROM d.store_sales JOIN d.item ON i_item_sk = ss_item_sk JOIN d.date_dim ON d_date_sk = ss_sold_date_sk
    WHERE ss_customer_sk IS NULL
    UNION ALL
    SELECT 'web', 'promotion', d_year, d_qoy, i_category, ws_ext_sales_price
    FROM d.web_sales JOIN d.item ON i_item_sk = ws_item_sk JOIN d.date_dim ON d_date_sk = ws_sold_date_sk
    WHERE ws_promo_sk IS NULL
)
GROUP BY channel, missing, d_year, d_qoy, i_category
ORDER BY channel, missing, d_year, d_qoy, i_category NULLS FIRST;
