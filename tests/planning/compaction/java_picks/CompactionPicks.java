// How picks-1.4.2.txt.gz was made: random level states, and what the strategy classes of released Java Paimon pick.
//
//   javac -cp 'JARS/*' -d classes CompactionPicks.java
//   java -cp 'classes:JARS/*' org.apache.paimon.mergetree.compact.CompactionPicks 10000 42 | gzip -9n > picks-1.4.2.txt.gz
//
// JARS: paimon-bundle-1.4.2 with hadoop-client-api, hadoop-client-runtime and slf4j-api. The package is Paimon's own,
// for the time of an early full compaction can be set only there. A line of the table:
//
//   T=5 amp=200 ratio=1 off=22..6+10@23 full=60@59 total=- incr=1000 force=- levels=6 | 0:12 0:10 4:1000*3 | 2 3
//
// T: the trigger. off: hours from..to, ratio, and the local hour. full: the interval of full compactions, and the time
// since the last ("never"). force: "-" not forced, "all" radical, "8/3" gentle with its interval and the triggers since
// the last forced pick. Then the runs, newest first, as level:bytes, with *n where the bytes are those of n files. The
// pick: how many runs and the output level, or "-".
package org.apache.paimon.mergetree.compact;

import org.apache.paimon.compact.CompactUnit;
import org.apache.paimon.data.BinaryRow;
import org.apache.paimon.io.DataFileMeta;
import org.apache.paimon.manifest.FileSource;
import org.apache.paimon.mergetree.LevelSortedRun;
import org.apache.paimon.mergetree.SortedRun;
import org.apache.paimon.stats.SimpleStats;

import java.time.LocalDateTime;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Optional;
import java.util.Random;

public class CompactionPicks {

    public static void main(String[] args) {
        Random random = new Random(Long.parseLong(args[1]));
        for (int made = 0; made < Integer.parseInt(args[0]); ) {
            int hour = LocalDateTime.now().getHour();
            String line = line(random, hour);
            // The strategy asks the clock for the hour, so a line counts only if the hour stayed.
            if (hour == LocalDateTime.now().getHour()) {
                System.out.println(line);
                made++;
            }
        }
    }

    private static String line(Random random, int now) {
        int trigger = 1 + random.nextInt(6);
        int amp = one(random, 0, 25, 100, 200, 200, 500);
        int ratio = one(random, 0, 1, 1, 10, 50, 100);
        int start = random.nextInt(3) == 0 ? random.nextInt(25) - 1 : -1;
        int end = start < 0 && random.nextInt(8) > 0 ? -1 : random.nextInt(25) - 1;
        int offRatio = one(random, 0, 5, 40, 200);
        int hour = random.nextInt(24);
        Long interval = random.nextInt(6) == 0 ? Long.valueOf(random.nextInt(100)) : null;
        long elapsed = random.nextInt(4) == 0 ? -1 : random.nextInt(110);
        if (interval != null && random.nextInt(4) == 0) {
            elapsed = interval;
        }
        int force = random.nextInt(4);
        int maxInterval = 1 + random.nextInt(8);
        int skipped = random.nextInt(maxInterval);
        List<LevelSortedRun> runs = runs(random, amp, ratio);
        int levels = Math.max(2, Math.max(trigger + 1, highest(runs) + 1)) + random.nextInt(2);
        long size = runs.stream().mapToLong(run -> run.run().totalSize()).sum();
        Long total = random.nextInt(6) == 0 ? near(random, size) : null;
        Long increment = random.nextInt(6) == 0 ? near(random, below(runs, levels - 1)) : null;

        EarlyFull early = interval == null && total == null && increment == null
                ? null
                : new EarlyFull(interval, total, increment);
        if (early != null && elapsed >= 0) {
            early.now = 1000;
            early.updateLastFullCompaction();
            early.now += elapsed;
        }
        OffPeakHours offPeak = OffPeakHours.create(turned(start, now - hour), turned(end, now - hour), offRatio);
        UniversalCompaction universal = new UniversalCompaction(amp, ratio, trigger, early, offPeak);
        CompactStrategy strategy = universal;
        if (force == 1) {
            strategy = new ForceUpLevel0Compaction(universal, null);
        } else if (force == 2) {
            strategy = new ForceUpLevel0Compaction(universal, maxInterval);
            for (int i = 0; i < skipped; i++) {
                // A lone run is nothing to compact, and each such trigger counts.
                strategy.pick(levels, Collections.singletonList(run(levels - 1, 1, 1)));
            }
        }
        // As the compact manager filters what a strategy picks.
        Optional<CompactUnit> pick = strategy.pick(levels, runs)
                .filter(unit -> !unit.files().isEmpty())
                .filter(unit -> unit.files().size() > 1 || unit.files().get(0).level() != unit.outputLevel());

        StringBuilder text = new StringBuilder();
        text.append("T=").append(trigger).append(" amp=").append(amp).append(" ratio=").append(ratio);
        String off = start + ".." + end + "+" + offRatio + "@" + hour;
        String full = interval + "@" + (elapsed < 0 ? "never" : elapsed);
        text.append(" off=").append(start < 0 && end < 0 ? "-" : off).append(" full=");
        text.append(interval == null ? "-" : full).append(" total=").append(total == null ? "-" : total);
        text.append(" incr=").append(increment == null ? "-" : increment).append(" force=");
        text.append(force == 1 ? "all" : force == 2 ? maxInterval + "/" + skipped : "-").append(" levels=").append(levels);
        text.append(" |");
        for (LevelSortedRun run : runs) {
            int files = run.run().files().size();
            text.append(" ").append(run.level()).append(":").append(run.run().totalSize());
            text.append(files == 1 ? "" : "*" + files);
        }
        text.append(" | ").append(pick.map(unit -> count(runs, unit) + " " + unit.outputLevel()).orElse("-"));
        return text.toString();
    }

    private static List<LevelSortedRun> runs(Random random, int amp, int ratio) {
        List<LevelSortedRun> runs = new ArrayList<>();
        int level0 = random.nextInt(6);
        long sum = 0;
        for (int i = 0; i < level0; i++) {
            runs.add(run(0, 1, size(random, sum, amp, ratio)));
            sum += runs.get(i).run().totalSize();
        }
        int levels = 1 + random.nextInt(6);
        for (int level = 1; level <= levels; level++) {
            if (random.nextInt(3) == 0) {
                int files = 1 + random.nextInt(3);
                long bytes = Math.max(files, size(random, sum, amp, ratio));
                runs.add(run(level, files, bytes));
                sum += bytes;
            }
        }
        return runs;
    }

    /** A size at random, often just where a rule changes its mind. */
    private static long size(Random random, long sum, int amp, int ratio) {
        int delta = random.nextInt(3) - 1;
        switch (random.nextInt(8)) {
            case 0:
                return random.nextInt(10);
            case 1:
            case 2:
                return Math.max(0, (long) (sum * (100.0 + ratio) / 100.0) + delta);
            case 3:
                return amp == 0 ? 7 : Math.max(0, sum * 100 / amp + delta);
            case 4:
                return random.nextInt(1000) * 1000000L;
            case 5:
                return random.nextInt(200) == 0 ? (1L << 54) + random.nextInt(9) : 1 + random.nextInt(5);
            default:
                return random.nextInt(1000);
        }
    }

    private static LevelSortedRun run(int level, int files, long bytes) {
        List<DataFileMeta> metas = new ArrayList<>();
        for (int i = 0; i < files; i++) {
            long size = i == 0 ? bytes - (files - 1) : 1;
            metas.add(DataFileMeta.create(
                    "f", size, 1, BinaryRow.EMPTY_ROW, BinaryRow.EMPTY_ROW, SimpleStats.EMPTY_STATS,
                    SimpleStats.EMPTY_STATS, 0, 0, 0, level, 0L, null, FileSource.APPEND, null, null, null));
        }
        return new LevelSortedRun(level, SortedRun.fromSorted(metas));
    }

    private static int count(List<LevelSortedRun> runs, CompactUnit unit) {
        int files = 0;
        for (int i = 0; i < runs.size(); i++) {
            files += runs.get(i).run().files().size();
            if (files == unit.files().size()) {
                return i + 1;
            }
        }
        throw new IllegalStateException("The picked files are not whole runs, newest first.");
    }

    private static int highest(List<LevelSortedRun> runs) {
        return runs.stream().mapToInt(LevelSortedRun::level).max().orElse(0);
    }

    private static long below(List<LevelSortedRun> runs, int level) {
        return runs.stream().filter(run -> run.level() != level).mapToLong(run -> run.run().totalSize()).sum();
    }

    private static long near(Random random, long size) {
        return random.nextInt(3) == 0 ? random.nextInt(3000) : Math.max(0, size + random.nextInt(3) - 1);
    }

    private static int turned(int hour, int by) {
        return hour < 0 ? hour : Math.floorMod(hour + by, 24);
    }

    private static int one(Random random, int... values) {
        return values[random.nextInt(values.length)];
    }

    private static class EarlyFull extends EarlyFullCompaction {
        private long now;

        private EarlyFull(Long interval, Long total, Long increment) {
            super(interval, total, increment);
        }

        @Override
        long currentTimeMillis() {
            return now;
        }
    }
}
