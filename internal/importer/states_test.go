package importer

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
)

// from imports texts as a.log, b.log and so on, and fails on an error.
func from(t *testing.T, ranks int, texts ...string) *result.Run {
	t.Helper()
	var logs []Log
	for i, s := range texts {
		logs = append(logs, Log{string(rune('a'+i)) + ".log", strings.NewReader(s)})
	}
	run, err := Import(logs, Options{Ranks: ranks})
	if err != nil {
		t.Fatal(err)
	}
	return run
}

func has(t *testing.T, text, want string) {
	t.Helper()
	if !strings.Contains(text, want) {
		t.Errorf("%q is missing in:\n%s", want, text)
	}
}

// Wrong data that a log tells makes a result that is not complete, or counts
// the wrong elements.
func TestWrongData(t *testing.T) {
	for _, tt := range []struct {
		log, old, new string
		ranks         int
		reason        string
	}{
		{"osu-7.5.log", "Pass", "Fail", 4, "a.log:10: validation failed at 4 bytes"},
		{"mscclpp-bench.log", "PASS", "FAIL", 8, "a.log:7: wrong data in mode mscclpp at 4.0 KiB"},
		{"mscclpp-collective.log", "PASS", "FAIL", 0, "a.log:5: wrong data at 10.0 KiB"},
		{"nccl-2.0.log", "Out of bounds values : 0 OK", "Out of bounds values : 3 FAILED", 0, "a.log:14: 3 values out of bounds, says the log"},
	} {
		run := from(t, tt.ranks, edit(t, text(t, tt.log), tt.old, tt.new))
		if run.Status.State != result.Failed {
			t.Errorf("%s is %s", tt.log, run.Status.State)
		}
		has(t, run.Status.Reason, tt.reason)
	}
	run := from(t, 0, text(t, "nccl-2.17.log"))
	if r := run.Rows[2]; r.Wrong == nil || *r.Wrong != 3 || run.Totals().FailedChecks != 2 || run.Status.State != result.Complete {
		t.Errorf("%+v, %+v", r, run.Status)
	}
	// inf and nan are deviations, and no counts.
	run = from(t, 0, edit(t, edit(t, text(t, "nccl-2.0.log"), "2e-07", "  inf"), "2e-07", "  nan"))
	if run.Rows[2].Wrong != nil || run.Rows[3].Wrong != nil || run.Rows[0].Wrong == nil || *run.Rows[0].Wrong != 0 {
		t.Errorf("%v %v %v", run.Rows[2].Wrong, run.Rows[3].Wrong, run.Rows[0].Wrong)
	}
}

// A choice is a row's algorithm only where all lines agree.
func TestSeveralAlgorithms(t *testing.T) {
	s := text(t, "tuning-2.24.log")
	line := "[0] node1:4100:4321 [0] NCCL INFO AllReduce: 268435456 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..3}\n"
	other := "[0] node1:4100:4321 [0] NCCL INFO ReduceScatter: 536870912 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..3}\n"
	at := strings.Index(s, "[0] # Out of bounds")
	run := from(t, 0, s[:at]+line+other+s[at:])
	for _, r := range run.Rows {
		want := "nvls simple"
		if r.Size == 1<<28 {
			want = ""
		}
		if r.Algorithm != want || (r.LinkBW != nil) != (want != "") {
			t.Errorf("%d bytes: %q, link %v", r.Size, r.Algorithm, r.LinkBW)
		}
	}
	has(t, strings.Join(run.Notes, "\n"), "several algorithms at a size, which are left out there: 268435456 (nvls simple, ring ll)")
	// What is said after a table is not of it.
	run = from(t, 0, s+line)
	if run.Rows[0].Algorithm != "nvls simple" {
		t.Errorf("%q", run.Rows[0].Algorithm)
	}
}

// A symmetric kernel is named, and counted as what it is: this one reduces in
// the switch.
func TestSymmetricKernel(t *testing.T) {
	s := strings.ReplaceAll(text(t, "tuning-2.24.log"), "[0] node1:4100:4321 [0] NCCL INFO AllReduce:", "[0] node1:4100:4321 [0] NCCL INFO AllReduce [Symmetric]:")
	s = strings.ReplaceAll(s, "node1:4100:4321 [0] NCCL INFO AllReduce: ", "node1:4100:4321 [0] NCCL INFO AllReduce [Symmetric]: ")
	s = strings.ReplaceAll(s, "Algo NVLS proto SIMPLE channel{Lo..Hi}={0..15}", "Kernel AllReduce_RSxLDMC_AGxSTMC nchannels 16 nthreads 512 nWorks 1")
	run := from(t, 0, s)
	if r := run.Rows[0]; r.Algorithm != "symmetric AllReduce_RSxLDMC_AGxSTMC" || r.LinkBW == nil || *r.LinkBW != r.AlgBW*9/8 {
		t.Errorf("%q, link %v", r.Algorithm, r.LinkBW)
	}
}

// A launcher's tag may stand within a line too, where NCCL's line goes on in the
// middle of a row.
func TestTagInARow(t *testing.T) {
	s := text(t, "tuning-2.24.log")
	tagged := strings.ReplaceAll(s, "-1node1:", "-1[0] node1:")
	if tagged == s {
		t.Fatal("no row is cut after its root")
	}
	if run := from(t, 0, tagged); len(run.Rows) != 8 || run.Rows[0].Algorithm != "nvls simple" {
		t.Errorf("%d rows, %q", len(run.Rows), run.Rows[0].Algorithm)
	}
	// So may NCCL's time of day.
	stamped := strings.ReplaceAll(s, "node1:4100:4321", "[2026-01-02 03:04:05] node1:4100:4321")
	if run := from(t, 0, stamped); len(run.Rows) != 8 || run.Rows[0].Algorithm != "nvls simple" {
		t.Errorf("%d rows, %q", len(run.Rows), run.Rows[0].Algorithm)
	}
}

// A host's name follows a number without a space, and the name of a container
// may begin with a digit, or be all digits.
func TestHostBehindANumber(t *testing.T) {
	for _, host := range []string{"node1", "036260b61d3a", "10-0-0-7", "123456789012", "e5", "N-A"} {
		for _, name := range []string{"tuning-2.20.log", "tuning-2.23.log", "tuning-2.24.log"} {
			s := strings.ReplaceAll(text(t, name), "node1:4100", host+":4100")
			if run := from(t, 0, s); len(run.Rows) != 8 || run.Rows[1].BusBW != 412.12 || run.Rows[1].Algorithm == "" {
				t.Errorf("%s on %s: %d rows", name, host, len(run.Rows))
			}
			// Unchecked rows end in N/A.
			if run := from(t, 0, strings.ReplaceAll(s, "      0"+host, "    N/A"+host)); len(run.Rows) != 8 || run.Rows[0].Wrong != nil {
				t.Errorf("unchecked %s on %s: %d rows", name, host, len(run.Rows))
			}
		}
		// Other layouts: without a root, and with -I.
		for _, name := range []string{"nccl-2.0.log", "nccl-2.19.log", "nccl-2.19-I.log"} {
			record := host + ":4100:4321 [0] NCCL INFO AllReduce: opCount 7\n"
			var cut strings.Builder
			front, half := 42, 32 // characters
			switch name {
			case "nccl-2.19.log":
				front, half = 52, 33
			case "nccl-2.19-I.log":
				front, half = 52, 33+4*9
			}
			for line := range strings.Lines(text(t, name)) {
				if strings.HasPrefix(line, " ") {
					line = line[:front] + record + record + line[front:front+half] + record + line[front+half:]
				}
				cut.WriteString(line)
			}
			want, got := from(t, 0, text(t, name)), from(t, 0, cut.String())
			if !equalRows(want.Rows, got.Rows) {
				t.Errorf("%s on %s: other rows", name, host)
			}
		}
	}
}

// Repeats are named by size and line, the first of them.
func TestManyRepeats(t *testing.T) {
	s := text(t, "nccl-2.19.log")
	first, end := strings.Index(s, "        1024"), strings.Index(s, "# Out of bounds")
	var rows strings.Builder
	for i := range 6 {
		for range 5 {
			fmt.Fprintf(&rows, "%12d  %12d  %8s  %6s  %6s  %7s  %6s  %6s  %6s  %7s  %6s  %6s  %6s\n", 1024<<i, 512<<i, "bfloat16", "sum", "-1",
				"100.00", fmt.Sprintf("%.2f", float64(int(1024)<<i)/1e5), fmt.Sprintf("%.2f", 1.75*float64(int(1024)<<i)/1e5), "0",
				"100.00", fmt.Sprintf("%.2f", float64(int(1024)<<i)/1e5), fmt.Sprintf("%.2f", 1.75*float64(int(1024)<<i)/1e5), "0")
		}
	}
	run := from(t, 0, s[:first]+rows.String()+s[end:])
	if len(run.Rows) != 60 || run.Rows[8].Cycle != 4 || run.Rows[10].Cycle != 0 {
		t.Errorf("%d rows, cycles %d and %d", len(run.Rows), run.Rows[8].Cycle, run.Rows[10].Cycle)
	}
	has(t, strings.Join(run.Notes, "\n"), "sizes stand up to 5 times and are all kept, as cycles: 1024 (lines 18, 19, 20 and 2 more), 2048 (lines 23, 24, 25 and 2 more)")
	has(t, strings.Join(run.Notes, "\n"), "8192 (lines 33, 34, 35 and 2 more) and 2 more")
}

// Logs of one name in several folders are told apart by their paths.
func TestSameNames(t *testing.T) {
	s := text(t, "nccl-2.13.log")
	run, err := Import([]Log{{"old/x.log", strings.NewReader(s)}, {"new/x.log", strings.NewReader(s)}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(run.Modes, "|"); got != "nccl (old/x.log)|nccl (new/x.log)" {
		t.Errorf("%s", got)
	}
}

// Logs that measure different things keep their modes.
func TestDifferentLogs(t *testing.T) {
	run := from(t, 8, text(t, "nccl-2.19.log"), text(t, "nccl-v3.json.log"), text(t, "osu-7.5.log"), text(t, "mscclpp-test.log"), text(t, "torch-bus.log"))
	if got := strings.Join(run.Modes, "|"); got != "nccl|mpi|mscclpp|pytorch" {
		t.Errorf("%s", got)
	}
	if run.Tool != "nccl-tests 2.19.6, nccl-tests, OSU Micro-Benchmarks 7.5, mscclpp-test, PyTorch script" {
		t.Errorf("%s", run.Tool)
	}
	has(t, strings.Join(run.Notes, "\n"), "measured with another sweep")
}

// Only variables of the allow-list leave a log.
func TestEnvironment(t *testing.T) {
	run := from(t, 0, text(t, "nccl-v3.json.log"))
	if got := fmt.Sprint(run.Env); got != "map[NCCL_ALGO:NVLS SLURM_JOB_ID:7]" {
		t.Errorf("%s", got)
	}
}

// The list of devices is cut after 2 KiB for each process.
func TestCutDeviceList(t *testing.T) {
	s := text(t, "nccl-2.13.log")
	at := strings.Index(s, "#  Rank  5")
	end := strings.Index(s, "#\n#   ")
	cut := s[:at] + "#  Rank  5 Group  0 Pid   41...\n" + s[end:]
	if _, err := Import([]Log{{"a.log", strings.NewReader(cut)}}, Options{}); err == nil || !strings.Contains(err.Error(), "8 ranks fit") {
		t.Errorf("%v", err)
	}
	if run := from(t, 8, cut); run.WorldSize != 8 || len(run.Devices) != 0 {
		t.Errorf("%d ranks, %d devices", run.WorldSize, len(run.Devices))
	}
}

// The benchmarks of MSCCL++ stop in many ways.
func TestMSCCLPPTables(t *testing.T) {
	s := text(t, "mscclpp-collective.log")
	for _, tt := range []struct{ old, new, want string }{
		{"| 5.21 ", "| x ", `time_us is "x"`},
		{"1     |", "0     |", `batch is "0"`},
		{"PASS", "MAYBE", `check is "MAYBE"`},
		{"0/5120", "0/5120 | 1", "14 columns and the header has 13"},
		{"mean_diff", "mean", "columns of the table are not known"},
		{"dtype=float16", "dtype=float8_e4m3b15", "data type of the table is not known"},
		{"scale=8", "scale=4", "an all-reduce of 4 ranks has 1.5"},
	} {
		_, err := Import([]Log{{"a.log", strings.NewReader(edit(t, s, tt.old, tt.new))}}, Options{})
		if err == nil {
			t.Errorf("%q for %q is no error", tt.new, tt.old)
			continue
		}
		has(t, err.Error(), tt.want)
	}
	run := from(t, 0, s+strings.ReplaceAll(s, "allreduce benchmark", "allgather benchmark"))
	if len(run.Rows) != 5 {
		t.Errorf("%d rows", len(run.Rows))
	}
	has(t, strings.Join(run.Notes, "\n"), "it is of allgather")
	// One row of a rounded size tells nothing alone.
	lines := strings.SplitAfter(s, "\n")
	one := strings.Join(append(lines[:4:4], lines[7]), "")
	if _, err := Import([]Log{{"a.log", strings.NewReader(one)}}, Options{}); err == nil || !strings.Contains(err.Error(), "its rows fit every size from") {
		t.Errorf("%v", err)
	}
}

func TestChoice(t *testing.T) {
	for _, tt := range []struct {
		message, algorithm string
		ok                 bool
	}{
		{"AllReduce: 1024 Bytes -> Algo NVLS proto SIMPLE channel{Lo..Hi}={0..15}", "nvls simple", true},
		{"1024 Bytes -> Algo 1 proto 0 time 5.5", "ring ll", true},
		{"AllGather: 1024 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..0}", "", false},
		{"Connected NVLS tree", "", false},
	} {
		if got, ok := Choice(tt.message); got != tt.algorithm || ok != tt.ok {
			t.Errorf("%q: %q, %v", tt.message, got, ok)
		}
	}
}

// nccl-tests tells a failed call in the middle of a row. The rows before it are
// whole, and the result says why there are no more.
func TestFailedCall(t *testing.T) {
	s := text(t, "nccl-2.13.log")
	at := strings.Index(s, "  4183.2")
	failed := s[:at] + "node1: Test CUDA failure common.cu:986 'out of memory'\n .. node1 pid 4100: Test failure common.cu:842\n"
	run := from(t, 0, failed)
	if len(run.Rows) != 4 || run.Status.State != result.Failed {
		t.Errorf("%d rows, %s", len(run.Rows), run.Status.State)
	}
	has(t, run.Status.Reason, "a.log:14: nccl-tests says: Test CUDA failure common.cu:986 'out of memory'")
	has(t, run.Status.Reason, "the log ends inside the table")
	run = from(t, 0, s[:at]+"node1: Test timeout (60s) common.cu:344\n")
	has(t, run.Status.Reason, "Test timeout (60s)")
}

func TestLogTwice(t *testing.T) {
	s := text(t, "nccl-2.13.log")
	_, err := Import([]Log{{"a.log", strings.NewReader(s)}, {"a.log", strings.NewReader(s)}}, Options{})
	if err == nil || !strings.Contains(err.Error(), "given twice") {
		t.Errorf("%v", err)
	}
}

// A log of thousands of tables, as a soak script leaves it: each is kept, and
// they share their notes.
func TestThousandsOfTables(t *testing.T) {
	const n = 3000
	run := from(t, 0, strings.Repeat(text(t, "nccl-2.0.log"), n))
	if len(run.Rows) != 6*n || len(run.Modes) != n || run.Modes[n-1] != fmt.Sprintf("nccl (a table %d)", n) {
		t.Errorf("%d rows, %d modes, the last is %s", len(run.Rows), len(run.Modes), run.Modes[len(run.Modes)-1])
	}
	if len(run.Notes) != 2 {
		t.Errorf("%d notes", len(run.Notes))
	}
	has(t, run.Notes[0], "a.log:14, a.log:35, a.log:56 and 2997 more: measured nccl at the same sizes as other tables; each is kept as a mode of its own: nccl (a table 1), nccl (a table 2)")
}
