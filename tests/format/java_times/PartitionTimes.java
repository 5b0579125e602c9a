// How times-2.0.0.txt.gz was made: random texts, and the time that released Java Paimon reads in them.
//
//   java -cp 'JARS/*' PartitionTimes.java 4000 42 | gzip -9n > times-2.0.0.txt.gz
//
// JARS: paimon-flink-2.0-2.0.0. A line of the table: the formatter ("" for none), the text and the time, or "-" where
// Java reads none, with tabs between.
import org.apache.paimon.partition.PartitionTimeExtractor;

import java.time.DateTimeException;
import java.util.Collections;
import java.util.Random;

public class PartitionTimes {

    private static final String[] FORMATTERS = {
        "yyyyMMdd", "yyyy-MM-dd", "yyyy-MM-dd HH:mm:ss", "yyyyMMddHH", "yyyyMMddHHmm", "yyyyMMddHHmmssSSS", "yyyy-M-d",
        "yyyy-M-d H:m:s", "dd.MM.yyyy", "uuuuMMdd", "u-M-d", "yyMMdd", "y/M/d", "yyyy-MM-dd'T'HH:mm", "yyyyMMdd'x'HH",
        "yyyy-MM", "HHmmss", "yyyy''MM''dd", "yyyyMMd", "yyyyMdd", "yyyyMMdd.SS", "MMddyyyy", "yyyyMMdd ss", "yyyy-MM-dd mm",
        "yyyyyMMdd", "yyyMMdd", "yyyy-MM-dd yyyy", "yyyy-MM-dd HH.S", "'dt='yyyyMMdd", "yyyyMMddHHmmssSSSSSSSSS"
    };

    public static void main(String[] args) {
        Random random = new Random(Long.parseLong(args[1]));
        for (int made = 0; made < Integer.parseInt(args[0]); made++) {
            String formatter = random.nextInt(4) == 0 ? null : one(random, FORMATTERS);
            String text = formatter == null ? standard(random) : formatted(random, formatter);
            if (random.nextInt(3) == 0) {
                text = changed(random, text);
            }
            System.out.println((formatter == null ? "" : formatter) + "\t" + text + "\t" + time(formatter, text));
        }
    }

    private static String time(String formatter, String text) {
        try {
            return new PartitionTimeExtractor(null, formatter)
                    .extract(Collections.singletonList("dt"), Collections.singletonList(text))
                    .toString();
        } catch (DateTimeException e) {
            return "-";
        }
    }

    private static String standard(Random random) {
        String text = year(random) + "-" + some(random, 15) + "-" + some(random, 34);
        if (random.nextBoolean()) {
            text += " " + some(random, 27) + ":" + some(random, 63) + ":" + some(random, 63);
            text += random.nextInt(3) == 0 ? "." + random.nextInt(1000) : "";
        }
        return text;
    }

    private static String formatted(Random random, String formatter) {
        StringBuilder text = new StringBuilder();
        boolean quoted = false;
        for (int i = 0; i < formatter.length(); ) {
            char c = formatter.charAt(i);
            int end = i;
            while (end < formatter.length() && formatter.charAt(end) == c) {
                end++;
            }
            int count = end - i;
            if (c == '\'') {
                if (count == 2) {
                    text.append('\'');
                } else {
                    quoted = !quoted;
                }
            } else if (quoted || !Character.isLetter(c)) {
                text.append(formatter, i, end);
            } else {
                text.append(field(random, c, count));
            }
            i = end;
        }
        return text.toString();
    }

    private static String field(Random random, char letter, int count) {
        int most = "HmsMd".indexOf(letter) < 0 ? 0 : new int[] {24, 59, 59, 12, 31}["HmsMd".indexOf(letter)];
        if (letter == 'S') {
            return String.format("%09d", random.nextInt(1_000_000_000)).substring(0, count);
        }
        if (letter == 'y' || letter == 'u') {
            return count == 2 ? pad(random.nextInt(100), 2) : pad(Integer.parseInt(year(random)), count);
        }
        int value = random.nextInt(10) == 0 ? random.nextInt(100) : random.nextInt(most + 1);
        return pad(random.nextInt(6) == 0 ? 0 : value, count);
    }

    private static String year(Random random) {
        int kind = random.nextInt(12);
        return kind == 0 ? String.valueOf(random.nextInt(100000)) : kind == 1 ? "0" : String.valueOf(1900 + random.nextInt(150));
    }

    private static String some(Random random, int bound) {
        int value = random.nextInt(bound);
        return random.nextInt(20) == 0 ? "-" + value : pad(value, 1 + random.nextInt(2));
    }

    private static String changed(Random random, String text) {
        int at = random.nextInt(text.length() + 1);
        String put = one(random, "", "0", "1", "9", "-", "+", " ", ".", "T", "12", "a");
        int drop = Math.min(text.length(), at + random.nextInt(2));
        return text.substring(0, at) + put + text.substring(drop);
    }

    private static String pad(int value, int width) {
        StringBuilder text = new StringBuilder(String.valueOf(value));
        while (text.length() < width) {
            text.insert(0, '0');
        }
        return text.toString();
    }

    private static String one(Random random, String... choices) {
        return choices[random.nextInt(choices.length)];
    }
}
