package importer

import (
	"strings"
	"testing"

	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
)

// edit replaces old by new once, and fails when there is no old: a test of a
// fault that is not made would pass for another reason.
func edit(t *testing.T, s, old, new string) string {
	t.Helper()
	if !strings.Contains(s, old) {
		t.Fatalf("no %q in the log", old)
	}
	return strings.Replace(s, old, new, 1)
}

// Every fault is told with file and line, has code 6, and leaves no result.
func TestErrors(t *testing.T) {
	log := func(name, old, new string) func(*testing.T) []string {
		return func(t *testing.T) []string { return []string{edit(t, text(t, name), old, new)} }
	}
	plain := func(s ...string) func(*testing.T) []string { return func(*testing.T) []string { return s } }
	for _, tt := range []struct {
		name  string
		logs  func(*testing.T) []string
		ranks int
		want  []string
	}{
		{"empty", plain(""), 0, []string{"nothing to import (a.log): the file is empty"}},
		{"only white space", plain(" \n\n\t\n"), 0, []string{"the file is empty"}},
		{"binary", plain("\x7fELF\x02\x01\x00\x00\n"), 0, []string{"a.log:1", "zero byte"}},
		{"UTF-16", plain("\xff\xfe#\x00 \x00\n\x00"), 0, []string{"zero byte", "UTF-16"}},
		{"compressed", plain("\x1f\x8b\x08\n"), 0, []string{"compressed", "gunzip"}},
		{"long line", plain(strings.Repeat("x", maxLine+1)), 0, []string{"longer than 64 KiB"}},
		{"no table", plain("hello\nworld 1 2 3\n"), 0, []string{"nothing to import (a.log): there is no table"}},
		{"one of two empty", func(t *testing.T) []string { return []string{text(t, "nccl-2.13.log"), "hello\n"} }, 0, []string{"nothing to import (b.log)"}},
		{"our own text", plain("# nvls-allreduce version v0.1.0  [SIMULATED]\n"), 0, []string{"a.log:1", "log of nvls-allreduce itself", "--output_file"}},
		{"our own JSON", plain(`{"schema": "nvls-allreduce/1", "rows": []}`), 0, []string{`a result with the schema "nvls-allreduce/1"`}},
		{"a newer result", plain(`{"schema": "nvls-allreduce/2"}`), 0, []string{`schema "nvls-allreduce/2"`}},

		{"no header", func(t *testing.T) []string {
			s := text(t, "nccl-2.13.log")
			return []string{s[strings.Index(s, "   268435456"):]}
		}, 8, []string{"a row without a table (a.log:1)", "a.log:4"}},
		{"unknown column", log("nccl-2.13.log", "#wrong", "#wrung"), 0, []string{"columns of the table are not known (a.log:14)"}},
		{"another unit", log("nccl-2.13.log", "(us)  (GB/s)", "(ms)  (GB/s)"), 0, []string{"units of the table are not known (a.log:15)", "(ms)"}},
		{"host time", log("nccl-2.19.log", "   time", "cputime"), 0, []string{"no times of all-reduce (a.log:16)", "without -C"}},
		{"size", log("nccl-2.13.log", "   536870912     134217728", "   53687O912     134217728"), 0, []string{"cannot read a row (a.log:17)"}},
		{"count", log("nccl-2.13.log", "134217728     float", "134217729     float"), 0, []string{"a.log:17", "134217729 elements of 4 bytes are not 536870912 bytes"}},
		{"time", log("nccl-2.13.log", " 2195.5", " 2l95.5"), 0, []string{"a.log:17", `the time is "2l95.5"`}},
		{"negative", log("nccl-2.13.log", " 2195.5", "-2195.5"), 0, []string{`the time is "-2195.5"`}},
		{"infinite", log("nccl-2.13.log", " 2195.5", "    inf"), 0, []string{`the time is "inf"`}},
		{"zero time", log("nccl-2.13.log", " 2195.5", "   0.00"), 0, []string{"a.log:17", "the time is 0"}},
		{"bandwidth", log("nccl-2.13.log", "427.93", "427..3"), 0, []string{"a.log:17", `the bus bandwidth is "427..3"`}},
		{"wrong", log("nccl-2.13.log", "      0   2192.0", "      ?   2192.0"), 0, []string{"a.log:17", `"?"`}},
		{"milliseconds", log("nccl-2.13.log", " 2195.5", "   2.20"), 0, []string{"a.log:17", "contradict", "the row says 244.53"}},
		{"megabytes", log("nccl-2.13.log", "  244.53  427.93", "  244530  427930"), 0, []string{"a.log:17", "contradict"}},
		{"bus bandwidth of all-gather", log("nccl-2.13.log", "427.93", "213.96"), 0, []string{"a.log:17", "0.875 times", "8 ranks has 1.75", "another collective"}},
		{"column missing", log("nccl-2.13.log", "      0   2192.0", "          2192.0"), 0, []string{"a.log:17", "12 columns and the header has 13"}},
		{"column more", log("nccl-2.13.log", "      0   2192.0", "  0   0   2192.0"), 0, []string{"a.log:17", "14 columns"}},
		{"message in a row", log("nccl-2.13.log", "  244.53", " oops 244.53"), 0, []string{"a.log:17"}},
		{"root", log("nccl-2.13.log", "sum      -1   2195", "sum       0   2195"), 0, []string{"cannot read a row (a.log:17)", "it has a root"}},
		{"root is no number", log("nccl-2.13.log", "sum      -1", "sum      -2"), 0, []string{"cannot read a row (a.log:16)", `root is "-2"`}},
		{"no operation", log("nccl-2.13.log", "sum      -1   2195", "none     -1   2195"), 0, []string{"cannot read a row (a.log:17)", "it has no operation"}},
		{"only rooted", func(t *testing.T) []string {
			return []string{strings.ReplaceAll(text(t, "nccl-2.13.log"), "sum      -1", "sum       0")}
		}, 0, []string{"nothing to import (a.log)", "a.log:14: the table was left out: it has a root"}},
		{"a device is missing", func(t *testing.T) []string {
			return []string{edit(t, text(t, "nccl-2.13.log"), "#  Rank  3", "#  rang  3")}
		}, 0, []string{"number of ranks is not known (a.log:14)", "8 ranks fit"}},
		{"placement", log("mscclpp-test.log", "out-of-place", "oop"), 0, []string{"placements of the table are not known (a.log:17)"}},
		{"timestamp", log("nccl-2.19-S.log", "12:34:56\n", "soon\n"), 0, []string{"a.log:18", "a date and a time"}},
		{"order of iterations", log("nccl-2.19-I.log", "   11.97", "   91.97"), 0, []string{"a.log:19", "not in order"}},
		{"only another collective", func(t *testing.T) []string {
			return []string{strings.ReplaceAll(text(t, "nccl-2.19.log"), "all_reduce_perf", "alltoall_perf")}
		}, 0, []string{"nothing to import (a.log): a.log:16: the table was left out: it is of alltoall_perf"}},
		{"table without rows", func(t *testing.T) []string {
			s := text(t, "nccl-2.13.log")
			return []string{s[:strings.Index(s, "   268435456")]}
		}, 0, []string{"nothing to import (a.log): a.log:14: the table has no rows"}},

		{"ranks not known", func(t *testing.T) []string {
			return []string{strings.ReplaceAll(text(t, "nccl-2.13.log"), "#  Rank", "#  rang")}
		}, 0, []string{"number of ranks is not known (a.log:14)", "8 ranks fit", "--ranks N"}},
		{"wrong --ranks", func(t *testing.T) []string {
			return []string{strings.ReplaceAll(text(t, "nccl-2.13.log"), "#  Rank", "#  rang")}
		}, 4, []string{"a.log:16", "an all-reduce of 4 ranks has 1.5", "8 ranks fit"}},
		{"--ranks contradicts", log("nccl-2.13.log", "node1", "node1"), 4, []string{"contradicts --ranks", "the log tells 8, and --ranks is 4"}},
		{"mixed ranks in a log", func(t *testing.T) []string {
			two := text(t, "nccl-2.19-split.log")
			return []string{text(t, "nccl-2.13.log") + two}
		}, 0, []string{"mixed numbers of ranks (a.log:35): 2 here, 8 at a.log:14", "separate results"}},
		{"mixed ranks in two logs", func(t *testing.T) []string {
			return []string{text(t, "nccl-2.13.log"), text(t, "nccl-2.19-split.log")}
		}, 0, []string{"mixed numbers of ranks (b.log:12): 2 here, 8 at a.log:14"}},
		{"groups of different size", log("nccl-2.13.log", "Group  0", "Group  1"), 0, []string{"mixed numbers of ranks in a table"}},
		{"built without MPI", log("nccl-2.13.log", "Rank  1", "Rank  0"), 0, []string{"rank 0 is listed twice", "MPI=1"}},
		{"OSU ranks", func(t *testing.T) []string { return []string{text(t, "osu-7.5.log")} }, 0, []string{"number of ranks is not known (a.log:9)"}},
		{"tuning ranks", log("tuning-only.log", "nranks 8", "nranks ?"), 0, []string{"number of ranks is not known (a.log)"}},

		{"tuning form", log("tuning-2.20.log", "-> Algo 1 proto 2", "-> Algo 1 prot 2"), 0, []string{"cannot read a tuning line of NCCL (a.log:18)", "none of the five forms"}},
		{"tuning index", log("tuning-2.20.log", "-> Algo 1 proto 2", "-> Algo 9 proto 2"), 0, []string{"algorithm 9 is not known"}},
		{"tuning protocol", log("tuning-2.24.log", "proto SIMPLE", "proto SIMPEL"), 0, []string{`protocol "SIMPEL" is not known`}},
		{"tuning in an old NCCL", log("tuning-2.20.log", "NCCL version 2.20.5", "NCCL version 2.12.7"), 0, []string{"algorithm 4 is not known: there are 3"}},

		{"OSU unit", log("osu-5.9.log", "Avg Latency(us)", "Avg Latency(ms)"), 4, []string{"columns of the table are not known (a.log:4)", "Latency(ms)"}},
		{"OSU row", log("osu-7.0-full.log", "558.56", "55x.56"), 4, []string{"cannot read a row (a.log:6)", `"55x.56"`}},
		{"OSU columns", log("osu-7.0-full.log", "558.56", "5 8.56"), 4, []string{"cannot read a row (a.log:6)", "6 columns and the header has 5"}},
		{"OSU validation", log("osu-7.5.log", "Pass", "pass"), 4, []string{"cannot read a row (a.log:10)", `Validation is "pass"`}},

		{"mscclpp size", log("mscclpp-bench.log", "96.0 KiB", "96.0 kiB"), 8, []string{"cannot read a row (a.log:8)", "96.0 kiB"}},
		{"mscclpp number", log("mscclpp-bench.log", " 9.53 ", " 9,53 "), 8, []string{"cannot read a row (a.log:8)"}},
		{"mscclpp column", log("mscclpp-bench.log", "NCCL AlgBW (GB/s)", "NCCL AlgBW (MB/s)"), 8, []string{"columns of the table are not known (a.log:5)"}},
		{"mscclpp sizes do not fit", log("mscclpp-collective.log", "960.0 KiB", "961.0 KiB"), 0, []string{"sizes of the table are rounded", "no number of bytes"}},
		{"mscclpp banner", log("mscclpp-collective.log", "MSCCL++", "MSCCL"), 0, []string{"data type of the table is not known (a.log:3)"}},
		{"mscclpp-test count", log("mscclpp-test.log", "268435456", "268435457"), 0, []string{"a.log:19", "are not"}},
		{"mscclpp-test columns", log("mscclpp-test.log", "  267.61  468.31", "267.61468.31"), 0, []string{"a.log:19"}},

		{"PyTorch ranks", func(t *testing.T) []string { return []string{text(t, "torch-noranks.log")} }, 0, []string{"number of ranks is not known (a.log:1)", "--ranks N"}},
		{"PyTorch trial", log("torch-bus.log", "Elapsed time = 40.5", "Elapsed time = 4o.5"), 0, []string{"cannot read a row (a.log:7)", "no trial of the script"}},
		{"PyTorch formula", log("torch-bus.log", "Bandwidth = 432.", "Bandwidth = 332."), 0, []string{"the formula of the bandwidth is not known", "332."}},
		{"PyTorch formulas mixed", log("torch-bus.log", "Bandwidth = 432.982", "Bandwidth = 494.836"), 0, []string{"the formula of the bandwidth is not known"}},
		{"PyTorch latency", log("torch-bus.log", "Latency = 4050.947", "Latency = 405.0947"), 0, []string{"contradict each other (a.log:7)", "are not 405.0947"}},
		{"PyTorch size", log("torch-bus.log", "(1.00 GB", "(2.00 GB"), 0, []string{"size of the tensor contradicts itself (a.log:1)"}},
		{"PyTorch tensor", log("torch-bus.log", "Tensor size", "Tensor"), 0, []string{"size of the tensor is not known"}},

		{"JSON version", log("nccl-v3.json.log", `"version":3`, `"version":4`), 0, []string{"version of nccl-tests' JSON is not known (a.log): it is 4"}},
		{"JSON without version", log("nccl-v3.json.log", `"version":3,`, ``), 0, []string{"no JSON of nccl-tests"}},
		{"JSON damaged", log("nccl-v3.json.log", `"redop":`, `"redop"`), 0, []string{"cannot read the JSON (a.log)"}},
		{"JSON host time", log("nccl-v3.json.log", `"time"`, `"cpu_time"`), 0, []string{"cannot read result 0 (a.log)", "without -C"}},
		{"JSON nan", log("nccl-v1.json.log", `"time":12.345678`, `"time":"nan"`), 0, []string{"cannot read result 0", "nan"}},
		{"JSON root", log("nccl-v1.json.log", `    -1`, `     0`), 0, []string{"not those of an all-reduce"}},
		{"JSON skipped", log("nccl-v3.json.log", `"skipped_iterations":1`, `"skipped_iterations":7`), 0, []string{"7 of 6 iterations are skipped"}},
		{"JSON numbers", log("nccl-v3.json.log", `"bus_bw":0`, `"bus_bw":9`), 0, []string{"contradict"}},
		{"two JSON in one", func(t *testing.T) []string {
			return []string{text(t, "nccl-v1.json.log") + text(t, "nccl-v1.json.log")}
		}, 0, []string{"more behind its end"}},
		{"JSON of nothing", plain(`{"version": 3}`), 0, []string{"the JSON has no results"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var logs []Log
			for i, s := range tt.logs(t) {
				logs = append(logs, Log{Name: string(rune('a'+i)) + ".log", Reader: strings.NewReader(s)})
			}
			run, err := Import(logs, Options{Ranks: tt.ranks})
			if err == nil || run != nil {
				t.Fatalf("no error, and a result: %v", run != nil)
			}
			if code := failure.CodeOf(err); code != failure.Usage {
				t.Errorf("code %d", code)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is missing in: %v", want, err)
				}
			}
		})
	}
}

// A damaged log is not told line by line without end.
func TestErrorsAreBounded(t *testing.T) {
	s := text(t, "nccl-2.13.log")
	row := s[strings.Index(s, "   268435456"):]
	row = row[:strings.IndexByte(row, '\n')+1]
	bad := strings.Repeat(edit(t, row, "411.66", "x"), 1000)
	_, err := Import([]Log{{"a.log", strings.NewReader(edit(t, s, row, bad))}}, Options{})
	if err == nil {
		t.Fatal("no error")
	}
	if lines := strings.Split(err.Error(), "\n"); len(lines) != maxProblems+1 || !strings.Contains(lines[maxProblems], "and 990 more lines") {
		t.Errorf("%d lines: %v", len(lines), err)
	}
}

// Before nccl-tests 2.17 no name tells the collective of a table; one that
// reduces nothing, or to a root, is left out beside one of all-reduce.
func TestOtherCollectivesAreLeftOut(t *testing.T) {
	s := text(t, "nccl-2.13.log")
	gather := strings.ReplaceAll(s, "  sum  ", "  none ")
	run, err := Import([]Log{{"a.log", strings.NewReader(gather + s + strings.ReplaceAll(s, "sum      -1", "sum       0"))}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	notes := strings.Join(run.Notes, "\n")
	if len(run.Rows) != 8 || run.Rows[0].Source.Table != 2 || !strings.Contains(notes, "it has no operation") || !strings.Contains(notes, "it has a root") {
		t.Errorf("%d rows, notes:\n%s", len(run.Rows), notes)
	}
}
