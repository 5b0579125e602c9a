-- 22 queries that ask what TPC-H's queries ask, with its validation values. Spark and DuckDB take each as it stands.

-- pricing summary
SELECT l_returnflag, l_linestatus, sum(l_quantity) AS quantity, sum(l_extendedprice) AS price,
    sum(l_extendedprice * (1 - l_discount)) AS paid, sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS charged,
    avg(l_quantity) AS mean_quantity, avg(l_extendedprice) AS mean_price, avg(l_discount) AS mean_discount,
    count(*) AS items
FROM h.lineitem
WHERE l_shipdate <= DATE '1998-09-02'
GROUP BY l_returnflag, l_linestatus
ORDER BY l_returnflag, l_linestatus;

-- cheapest supplier of a part
SELECT s_acctbal, s_name, n_name, p_partkey, p_mfgr, s_address, s_phone, s_comment
FROM h.part
JOIN h.partsupp ON ps_partkey = p_partkey
JOIN h.supplier ON s_suppkey = ps_suppkey
JOIN h.nation ON n_nationkey = s_nationkey
JOIN h.region ON r_regionkey = n_regionkey
WHERE p_size = 15 AND p_type LIKE '%BRASS' AND r_name = 'EUROPE' AND ps_supplycost = (
    SELECT min(other.ps_supplycost)
    FROM h.partsupp other
    JOIN h.supplier seller ON seller.s_suppkey = other.ps_suppkey
    JOIN h.nation home ON home.n_nationkey = seller.s_nationkey
    JOIN h.region place ON place.r_regionkey = home.n_regionkey
    WHERE other.ps_partkey = p_partkey AND place.r_name = 'EUROPE'
)
ORDER BY s_acctbal DESC, n_name, s_name, p_partkey
LIMIT 100;

-- greatest orders that are not shipped
SELECT l_orderkey, sum(l_extendedprice * (1 - l_discount)) AS revenue, o_orderdate, o_shippriority
FROM h.customer
JOIN h.orders ON o_custkey = c_custkey
JOIN h.lineitem ON l_orderkey = o_orderkey
WHERE c_mktsegment = 'BUILDING' AND o_orderdate < DATE '1995-03-15' AND l_shipdate > DATE '1995-03-15'
GROUP BY l_orderkey, o_orderdate, o_shippriority
ORDER BY revenue DESC, o_orderdate
LIMIT 10;

-- orders with a late item
SELECT o_orderpriority, count(*) AS orders
FROM h.orders
WHERE o_orderdate >= DATE '1993-07-01' AND o_orderdate < DATE '1993-07-01' + INTERVAL '3' MONTH
    AND EXISTS (SELECT * FROM h.lineitem WHERE l_orderkey = o_orderkey AND l_commitdate < l_receiptdate)
GROUP BY o_orderpriority
ORDER BY o_orderpriority;

-- revenue of local suppliers
SELECT n_name, sum(l_extendedprice * (1 - l_discount)) AS revenue
FROM h.customer
JOIN h.orders ON o_custkey = c_custkey
JOIN h.lineitem ON l_orderkey = o_orderkey
JOIN h.supplier ON s_suppkey = l_suppkey AND s_nationkey = c_nationkey
JOIN h.nation ON n_nationkey = s_nationkey
JOIN h.region ON r_regionkey = n_regionkey
WHERE r_name = 'ASIA' AND o_orderdate >= DATE '1994-01-01' AND o_orderdate < DATE '1995-01-01'
GROUP BY n_name
ORDER BY revenue DESC;

-- revenue without small discounts
SELECT sum(l_extendedprice * l_discount) AS revenue
FROM h.lineitem
WHERE l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1995-01-01'
    AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24;

-- trade between two nations
WITH shipping AS (
    SELECT sender.n_name AS supplier_nation, receiver.n_name AS customer_nation,
        extract(year FROM l_shipdate) AS shipped, l_extendedprice * (1 - l_discount) AS volume
    FROM h.supplier
    JOIN h.lineitem ON l_suppkey = s_suppkey
    JOIN h.orders ON o_orderkey = l_orderkey
    JOIN h.customer ON c_custkey = o_custkey
    JOIN h.nation sender ON sender.n_nationkey = s_nationkey
    JOIN h.nation receiver ON receiver.n_nationkey = c_nationkey
    WHERE l_shipdate BETWEEN DATE '1995-01-01' AND DATE '1996-12-31'
        AND (sender.n_name = 'FRANCE' AND receiver.n_name = 'GERMANY'
            OR sender.n_name = 'GERMANY' AND receiver.n_name = 'FRANCE')
)
SELECT supplier_nation, customer_nation, shipped, sum(volume) AS revenue
FROM shipping
GROUP BY supplier_nation, customer_nation, shipped
ORDER BY supplier_nation, customer_nation, shipped;

-- market share
SELECT ordered, sum(CASE WHEN nation = 'BRAZIL' THEN volume ELSE 0 END) / sum(volume) AS share
FROM (
    SELECT extract(year FROM o_orderdate) AS ordered, l_extendedprice * (1 - l_discount) AS volume,
        seller.n_name AS nation
    FROM h.part
    JOIN h.lineitem ON l_partkey = p_partkey
    JOIN h.supplier ON s_suppkey = l_suppkey
    JOIN h.orders ON o_orderkey = l_orderkey
    JOIN h.customer ON c_custkey = o_custkey
    JOIN h.nation buyer ON buyer.n_nationkey = c_nationkey
    JOIN h.region ON r_regionkey = buyer.n_regionkey
    JOIN h.nation seller ON seller.n_nationkey = s_nationkey
    WHERE r_name = 'AMERICA' AND o_orderdate BETWEEN DATE '1995-01-01' AND DATE '1996-12-31'
        AND p_type = 'ECONOMY ANODIZED STEEL'
) AS sold
GROUP BY ordered
ORDER BY ordered;

-- profit by nation and year
SELECT nation, ordered, sum(amount) AS profit
FROM (
    SELECT n_name AS nation, extract(year FROM o_orderdate) AS ordered,
        l_extendedprice * (1 - l_discount) - ps_supplycost * l_quantity AS amount
    FROM h.part
    JOIN h.lineitem ON l_partkey = p_partkey
    JOIN h.supplier ON s_suppkey = l_suppkey
    JOIN h.partsupp ON ps_suppkey = l_suppkey AND ps_partkey = l_partkey
    JOIN h.orders ON o_orderkey = l_orderkey
    JOIN h.nation ON n_nationkey = s_nationkey
    WHERE p_name LIKE '%green%'
) AS sold
GROUP BY nation, ordered
ORDER BY nation, ordered DESC;

-- customers who return items
SELECT c_custkey, c_name, sum(l_extendedprice * (1 - l_discount)) AS revenue, c_acctbal, n_name, c_address, c_phone,
    c_comment
FROM h.customer
JOIN h.orders ON o_custkey = c_custkey
JOIN h.lineitem ON l_orderkey = o_orderkey
JOIN h.nation ON n_nationkey = c_nationkey
WHERE o_orderdate >= DATE '1993-10-01' AND o_orderdate < DATE '1994-01-01' AND l_returnflag = 'R'
GROUP BY c_custkey, c_name, c_acctbal, c_phone, n_name, c_address, c_comment
ORDER BY revenue DESC, c_custkey
LIMIT 20;

-- most valuable stock
SELECT ps_partkey, sum(ps_supplycost * ps_availqty) AS worth
FROM h.partsupp
JOIN h.supplier ON s_suppkey = ps_suppkey
JOIN h.nation ON n_nationkey = s_nationkey
WHERE n_name = 'GERMANY'
GROUP BY ps_partkey
HAVING sum(ps_supplycost * ps_availqty) > (
    SELECT sum(ps_supplycost * ps_availqty) * 0.01
    FROM h.partsupp
    JOIN h.supplier ON s_suppkey = ps_suppkey
    JOIN h.nation ON n_nationkey = s_nationkey
    WHERE n_name = 'GERMANY'
)
ORDER BY worth DESC, ps_partkey;

-- late items by priority
SELECT l_shipmode,
    sum(CASE WHEN o_orderpriority IN ('1-URGENT', '2-HIGH') THEN 1 ELSE 0 END) AS high,
    sum(CASE WHEN o_orderpriority NOT IN ('1-URGENT', '2-HIGH') THEN 1 ELSE 0 END) AS low
FROM h.orders
JOIN h.lineitem ON l_orderkey = o_orderkey
WHERE l_shipmode IN ('MAIL', 'SHIP') AND l_commitdate < l_receiptdate AND l_shipdate < l_commitdate
    AND l_receiptdate >= DATE '1994-01-01' AND l_receiptdate < DATE '1995-01-01'
GROUP BY l_shipmode
ORDER BY l_shipmode;

-- orders a customer
SELECT orders, count(*) AS customers
FROM (
    SELECT c_custkey, count(o_orderkey) AS orders
    FROM h.customer
    LEFT JOIN h.orders ON o_custkey = c_custkey AND o_comment NOT LIKE '%special%requests%'
    GROUP BY c_custkey
) AS counted
GROUP BY orders
ORDER BY customers DESC, orders DESC;

-- effect of promotions
SELECT 100.00 * sum(CASE WHEN p_type LIKE 'PROMO%' THEN l_extendedprice * (1 - l_discount) ELSE 0 END)
    / sum(l_extendedprice * (1 - l_discount)) AS promoted
FROM h.lineitem
JOIN h.part ON p_partkey = l_partkey
WHERE l_shipdate >= DATE '1995-09-01' AND l_shipdate < DATE '1995-10-01';

-- best supplier of a quarter
WITH revenue AS (
    SELECT l_suppkey AS seller, sum(l_extendedprice * (1 - l_discount)) AS total
    FROM h.lineitem
    WHERE l_shipdate >= DATE '1996-01-01' AND l_shipdate < DATE '1996-01-01' + INTERVAL '3' MONTH
    GROUP BY l_suppkey
)
SELECT s_suppkey, s_name, s_address, s_phone, total
FROM h.supplier
JOIN revenue ON seller = s_suppkey
WHERE total = (SELECT max(total) FROM revenue)
ORDER BY s_suppkey;

-- suppliers of parts
SELECT p_brand, p_type, p_size, count(DISTINCT ps_suppkey) AS suppliers
FROM h.partsupp
JOIN h.part ON p_partkey = ps_partkey
WHERE p_brand <> 'Brand#45' AND p_type NOT LIKE 'MEDIUM POLISHED%' AND p_size IN (49, 14, 23, 45, 19, 3, 36, 9)
    AND ps_suppkey NOT IN (SELECT s_suppkey FROM h.supplier WHERE s_comment LIKE '%Customer%Complaints%')
GROUP BY p_brand, p_type, p_size
ORDER BY suppliers DESC, p_brand, p_type, p_size;

-- revenue of small quantities
SELECT sum(l_extendedprice) / 7.0 AS yearly
FROM h.lineitem
JOIN h.part ON p_partkey = l_partkey
WHERE p_brand = 'Brand#23' AND p_container = 'MED BOX'
    AND l_quantity < (SELECT 0.2 * avg(l_quantity) FROM h.lineitem WHERE l_partkey = p_partkey);

-- great orders
SELECT c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice, sum(l_quantity) AS quantity
FROM h.customer
JOIN h.orders ON o_custkey = c_custkey
JOIN h.lineitem ON l_orderkey = o_orderkey
WHERE o_orderkey IN (SELECT l_orderkey FROM h.lineitem GROUP BY l_orderkey HAVING sum(l_quantity) > 250)
GROUP BY c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice
ORDER BY o_totalprice DESC, o_orderdate
LIMIT 100;

-- revenue by containers and quantities
SELECT sum(l_extendedprice * (1 - l_discount)) AS revenue
FROM h.lineitem
JOIN h.part ON p_partkey = l_partkey
WHERE l_shipmode IN ('AIR', 'AIR REG') AND l_shipinstruct = 'DELIVER IN PERSON' AND (
    p_brand = 'Brand#12' AND p_container IN ('SM CASE', 'SM BOX', 'SM PACK', 'SM PKG')
        AND l_quantity BETWEEN 1 AND 11 AND p_size BETWEEN 1 AND 5
    OR p_brand = 'Brand#23' AND p_container IN ('MED BAG', 'MED BOX', 'MED PKG', 'MED PACK')
        AND l_quantity BETWEEN 10 AND 20 AND p_size BETWEEN 1 AND 10
    OR p_brand = 'Brand#34' AND p_container IN ('LG CASE', 'LG BOX', 'LG PACK', 'LG PKG')
        AND l_quantity BETWEEN 20 AND 30 AND p_size BETWEEN 1 AND 15
);

-- suppliers with too much stock
SELECT s_name, s_address
FROM h.supplier
JOIN h.nation ON n_nationkey = s_nationkey
WHERE n_name = 'CANADA' AND s_suppkey IN (
    SELECT ps_suppkey
    FROM h.partsupp
    WHERE ps_partkey IN (SELECT p_partkey FROM h.part WHERE p_name LIKE 'forest%') AND ps_availqty > (
        SELECT 0.5 * sum(l_quantity)
        FROM h.lineitem
        WHERE l_partkey = ps_partkey AND l_suppkey = ps_suppkey
            AND l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1995-01-01'
    )
)
ORDER BY s_name;

-- suppliers who alone were late
SELECT s_name, count(*) AS waiting
FROM h.supplier
JOIN h.lineitem late ON late.l_suppkey = s_suppkey
JOIN h.orders ON o_orderkey = late.l_orderkey
JOIN h.nation ON n_nationkey = s_nationkey
WHERE o_orderstatus = 'F' AND late.l_receiptdate > late.l_commitdate AND n_name = 'SAUDI ARABIA'
    AND EXISTS (
        SELECT * FROM h.lineitem other WHERE other.l_orderkey = late.l_orderkey AND other.l_suppkey <> late.l_suppkey
    )
    AND NOT EXISTS (
        SELECT * FROM h.lineitem other
        WHERE other.l_orderkey = late.l_orderkey AND other.l_suppkey <> late.l_suppkey
            AND other.l_receiptdate > other.l_commitdate
    )
GROUP BY s_name
ORDER BY waiting DESC, s_name
LIMIT 100;

-- customers without orders
SELECT code, count(*) AS customers, sum(c_acctbal) AS balance
FROM (
    SELECT substring(c_phone, 1, 2) AS code, c_acctbal
    FROM h.customer
    WHERE substring(c_phone, 1, 2) IN ('13', '31', '23', '29', '30', '18', '17')
        AND c_acctbal > (
            SELECT avg(c_acctbal) FROM h.customer
            WHERE c_acctbal > 0.00 AND substring(c_phone, 1, 2) IN ('13', '31', '23', '29', '30', '18', '17')
        )
        AND NOT EXISTS (SELECT * FROM h.orders WHERE o_custkey = c_custkey)
) AS idle
GROUP BY code
ORDER BY code;
