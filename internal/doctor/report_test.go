//go:build linux

package doctor

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nvls-allreduce/nvls-allreduce/collective"
	"github.com/nvls-allreduce/nvls-allreduce/configs"
	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/internal/grouptest"
	"github.com/nvls-allreduce/nvls-allreduce/nvls"
)

func TestMerge(t *testing.T) {
	a := Finding{ID: "a", Severity: OK, What: "same"}
	b0 := Finding{ID: "b", Severity: Info, What: "of rank 0"}
	b1 := Finding{ID: "b", Severity: Info, What: "of rank 1"}
	c := Finding{ID: "c", Severity: Warning, What: "only there"}
	got := merge([]int{0, 1, 2}, [][]Finding{{a, b0, c}, {a, b1}, {a, b1, b1}})
	at := func(f Finding, ranks ...int) Finding { f.Ranks = ranks; return f }
	if diff := cmp.Diff([]Finding{at(a, 0, 1, 2), at(b0, 0), at(b1, 1, 2), at(c, 0)}, got); diff != "" {
		t.Error(diff)
	}
}

// A mode runs when it was seen to, not when nothing was found against it.
func TestJudge(t *testing.T) {
	yes := func(id string) Finding { return Finding{ID: id, Outcome: Yes, What: id + " works"} }
	no := func(id string, modes ...string) Finding {
		return Finding{ID: id, Outcome: No, What: id + " fails", Cost: modes}
	}
	unknown := func(id string) Finding { return Finding{ID: id, Outcome: Unknown, What: "whether " + id + " works"} }
	for _, tt := range []struct {
		name     string
		findings []Finding
		ring     Outcome
		zeroCopy Outcome
		because  string // of zero-copy
	}{
		{"nothing was asked", nil, Unknown, Unknown, "multicast"},
		{"all works", []Finding{yes("peers"), yes("multicast")}, Yes, Yes, "multicast"},
		{"could not tell", []Finding{yes("peers"), unknown("multicast")}, Yes, Unknown, "multicast"},
		{"one of two ranks could not tell", []Finding{yes("peers"), yes("multicast"), unknown("multicast")}, Yes, Unknown, "multicast"},
		{"switched off", []Finding{no("nvls.switched-off", nvlsModes...), yes("peers"), unknown("multicast")}, Yes, No, "nvls.switched-off"},
		{"peers fail", []Finding{no("peers", allModes...), yes("multicast")}, No, No, "peers"},
		{"too little memory", []Finding{no("memory", allModes...), yes("peers"), yes("multicast")}, No, No, "memory"},
	} {
		v := judge(tt.findings, allModes)
		i := slices.IndexFunc(v, func(m ModeVerdict) bool { return m.Mode == configs.ModeRing })
		if v[i].Runs != tt.ring || v[0].Runs != tt.zeroCopy || v[0].Because[0] != tt.because {
			t.Errorf("%s: %+v", tt.name, v)
		}
		if (v[0].Why == "") != (v[0].Runs == Yes) {
			t.Errorf("%s: why %q", tt.name, v[0].Why)
		}
	}
}

func TestFails(t *testing.T) {
	onlyRing := []ModeVerdict{{Mode: configs.ModeZeroCopy, Runs: No}, {Mode: configs.ModeCopyIn, Runs: Unknown}, {Mode: configs.ModeRing, Runs: Yes}, {Mode: configs.ModeP2P, Runs: Yes},
		{Mode: configs.ModeP2PPacket, Runs: Yes, Partly: true}}
	for wanted, want := range map[string]string{
		"ring": "", "p2p": "", "auto": "", "p2p-packet": "p2p-packet", "nvls-zero-copy": "nvls-zero-copy",
		"nvls-copy-in": "nvls-copy-in", "ring,nvls-zero-copy": "nvls-zero-copy", "nccl": "nccl",
	} {
		if got := strings.Join(fails(strings.Split(wanted, ","), onlyRing), ","); got != want {
			t.Errorf("%s: %q fails, want %q", wanted, got, want)
		}
	}
}

// The code is that of what a run meets first, and of the modes that are wanted.
func TestExitCode(t *testing.T) {
	no := func(id string, code failure.Code, modes ...string) Finding {
		return Finding{ID: id, Severity: Failed, Outcome: No, What: id, Cost: modes, Exit: code}
	}
	peers, multicast := Finding{ID: askPeers, Outcome: Yes}, Finding{ID: askMulticast, Outcome: Yes}
	refused := no("asked.operation", 0, nvlsModes...)
	part := Finding{ID: "asked.size", Severity: Failed, Outcome: No, What: "too large", Partly: []string{configs.ModeP2PPacket}}
	for _, tt := range []struct {
		name     string
		findings []Finding
		wanted   string
		fallback bool
		want     failure.Code
	}{
		{"all is well", []Finding{peers, multicast}, "ring,nvls-zero-copy", false, failure.OK},
		{"nothing is known", nil, "ring", false, failure.Unavailable},
		{"nothing is known, fallback", nil, "nvls-zero-copy", true, failure.Unavailable},
		{"refused", []Finding{peers, multicast, refused}, "nvls-zero-copy", false, failure.Unavailable},
		{"refused and not wanted", []Finding{peers, multicast, refused}, "ring", false, failure.OK},
		{"refused and replaced", []Finding{peers, multicast, refused}, "nvls-zero-copy", true, failure.OK},
		{"refused and nothing to replace it", []Finding{no(askPeers, 0, allModes...), refused}, "nvls-zero-copy", true, failure.Unavailable},
		{"in part", []Finding{peers, part}, "p2p-packet", false, failure.Unavailable},
		{"auto takes what can", []Finding{peers, multicast, refused}, "auto", false, failure.OK},
		{"wrong use comes first", []Finding{no("asked.tuning", failure.Usage, allModes...), no("memory", failure.Device, allModes...)}, "ring", false, failure.Usage},
		{"a refusal of every mode comes before the tuning file is compared", []Finding{peers, no(askMulticast, 0, nvlsModes...), no("asked.tuning", failure.Usage, allModes...)}, "nvls-zero-copy", false, failure.Unavailable},
		{"of one mode, after", []Finding{peers, no(askMulticast, 0, nvlsModes...), no("asked.tuning", failure.Usage, allModes...)}, "nvls-zero-copy,ring", false, failure.Usage},
		{"a driver that fails is no refusal", []Finding{peers, no(askMulticast, failure.Device, nvlsModes...)}, "nvls-zero-copy,ring", true, failure.Device},
		{"nor under auto", []Finding{peers, no(askMulticast, failure.Device, nvlsModes...)}, "auto", false, failure.Device},
		{"of a mode that is not wanted", []Finding{peers, no(askMulticast, failure.Device, nvlsModes...)}, "ring", false, failure.OK},
		{"no node, and CUDA says why", []Finding{no("gpu.nodes", 0, allModes...), no("gpu.driver", failure.Device, allModes...)}, "ring", false, failure.Device},
		{"no group, no NCCL", []Finding{no("gpu.driver", failure.Device, allModes...)}, "nccl", false, failure.Device},
		{"wrong data is found last", []Finding{no(askPeers, failure.WrongData, allModes...), no(askMulticast, 0, nvlsModes...)}, "nvls-zero-copy", false, failure.Unavailable},
		{"wrong data", []Finding{no(askPeers, failure.WrongData, allModes...)}, "ring", false, failure.WrongData},
	} {
		wanted := strings.Split(tt.wanted, ",")
		verdicts := judge(tt.findings, judgedModes(wanted))
		if got := exitCode(tt.findings, wanted, verdicts, tt.fallback); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}

// A mode that does a part of what is asked, and what costs all modes.
func TestPartly(t *testing.T) {
	f := []Finding{{ID: askPeers, Outcome: Yes}, {ID: "asked.size", Outcome: No, What: "too large", Partly: []string{configs.ModeP2PPacket}}}
	v := judge(f, []string{configs.ModeP2PPacket, configs.ModeRing, configs.ModeNCCL})
	if v[0].Runs != Yes || !v[0].Partly || v[0].Why != "too large" || v[1].Partly || v[2].Runs != Unknown {
		t.Errorf("%+v", v)
	}
	if got, want := sentence(v[:2], false), "ring will work here; p2p-packet will work here, but not for all that is asked: too large [asked.size]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	v = judge([]Finding{{ID: "gpu.driver", Outcome: No, What: "no CUDA", Cost: allModes}}, []string{configs.ModeNCCL, configs.ModeP2PPush})
	if v[0].Runs != No || v[1].Runs != No {
		t.Errorf("%+v", v)
	}
}

func TestSentence(t *testing.T) {
	got := sentence([]ModeVerdict{
		{Mode: "nvls-zero-copy", Runs: No, Because: []string{"a"}, Why: "it is off"}, {Mode: "nvls-copy-in", Runs: No, Because: []string{"a"}, Why: "it is off"},
		{Mode: "ring", Runs: Yes, Because: []string{"peers"}}, {Mode: "p2p", Runs: Unknown, Because: []string{"peers"}, Why: "nobody knows"}}, false)
	const want = "ring will work here; nvls-zero-copy and nvls-copy-in will not work here: it is off [a]; whether p2p will work could not be told: nobody knows [peers]"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestReconcile(t *testing.T) {
	findings := []Finding{
		costs("gpu.nodes", "no nodes", allModes, "x", failure.User), costs("gpu.fabric", "not started", nvlsModes, "x", failure.Administrator),
		{ID: "gpu.driver", Outcome: Yes}, {ID: "multicast", Outcome: Unknown}}
	reconcile(findings)
	if findings[0].Severity != Warning || findings[0].Cost != nil {
		t.Errorf("CUDA starts, and yet: %+v", findings[0])
	}
	if findings[1].Severity != Failed {
		t.Errorf("multicast was not seen to work, and yet: %+v", findings[1])
	}
	findings[3].Outcome = Yes
	reconcile(findings)
	if findings[1].Severity != Warning || findings[1].Cost != nil {
		t.Errorf("multicast works, and yet: %+v", findings[1])
	}
}

func TestReconcileCompiler(t *testing.T) {
	findings := []Finding{compiler(fakeSystem(t, nil), "/nowhere"), {ID: "peers", Outcome: No}}
	reconcile(findings)
	want(t, findings[0], Info, Unknown)
	findings[1].Outcome = Yes
	reconcile(findings)
	want(t, findings[0], OK, Yes, "kernels were compiled")
}

// What the driver's "no multicast" is due to is told from what NVML found, and
// from nothing else.
func TestNotOffered(t *testing.T) {
	offered := func(others ...Finding) string {
		f := append([]Finding{{ID: "nvls.not-offered"}}, others...)
		explainNotOffered(f)
		return f[0].Evidence[0].Value
	}
	fine := Finding{ID: "gpu.fabric", Severity: OK, Outcome: Yes}
	mig := Finding{ID: "gpu.mig", Severity: Warning, Outcome: Yes}
	unknown := Finding{ID: "gpu.confidential", Severity: Warning, Outcome: Unknown}
	for _, tt := range []struct{ got, want string }{
		{offered(fine), "none of"}, {offered(), "could not be looked at"}, {offered(fine, unknown), "none of"}, {offered(fine, mig), "see gpu.mig"},
		{offered(Finding{ID: "gpu.fabric", Severity: Failed, Outcome: No}, mig), "see gpu.fabric and gpu.mig"},
	} {
		if !strings.Contains(tt.got, tt.want) {
			t.Errorf("got %q, want %q", tt.got, tt.want)
		}
	}
}

// Every reason of package nvls becomes a finding with the same words.
func TestAgainst(t *testing.T) {
	good := device.Info{Name: "x", Major: 9, VMM: true, PosixFD: true, Multicast: true}
	with := func(change func(*device.Info)) device.Info {
		d := good
		change(&d)
		return d
	}
	for id, tt := range map[string]struct {
		info   device.Info
		shared bool
	}{
		"nvls.switched-off":       {info: with(func(d *device.Info) { d.Multicast, d.MulticastOff = false, "NCCL_NVLS_ENABLE=0" })},
		"nvls.compute-capability": {info: with(func(d *device.Info) { d.Major, d.Multicast = 8, false })},
		"nvls.shared-gpu":         {info: good, shared: true},
		"nvls.descriptors":        {info: with(func(d *device.Info) { d.PosixFD = false })},
		"nvls.not-offered":        {info: with(func(d *device.Info) { d.Multicast = false })},
	} {
		f := against([]device.Info{tt.info, tt.info}, tt.shared)
		if len(f) != 1 || f[0].ID != id || f[0].What != nvls.Reasons(tt.info, tt.shared)[0].Why || f[0].Cost == nil {
			t.Errorf("%s: %+v", id, f)
			continue
		}
		sound(t, f[0])
	}
	if f := against([]device.Info{good}, false); f != nil {
		t.Errorf("a good device: %+v", f)
	}
	if f := portable([]device.Info{with(func(d *device.Info) { d.Major, d.PosixFD = 7, false })}); len(f) != 2 {
		t.Errorf("an old device: %+v", f)
	} else {
		want(t, find(t, f, "gpu.compute-capability"), Failed, No, "need compute capability 8.0")
		want(t, find(t, f, "gpu.descriptors"), Failed, No, "attributes 102 and 103")
	}
}

func TestCompareDevices(t *testing.T) {
	gpu := func(n int) device.Info { return device.Info{UUID: device.UUID{byte(n)}, Ordinal: 0} }
	two := []device.Info{gpu(1), gpu(2)}
	_, f := compareDevices([][]device.Info{two, two}, false)
	want(t, f, OK, Yes, "of its own")
	for _, tt := range []struct {
		name    string
		visible [][]device.Info
		words   []string
	}{
		{"one GPU for two ranks", [][]device.Info{{gpu(1)}, {gpu(1)}}, []string{"ranks 0 and 1 are on one GPU", "--gpu-bind=none"}},
		{"each sees its own only", [][]device.Info{{gpu(1)}, {gpu(2)}}, []string{"rank 0 does not see rank 1's", "--gpu-bind=none"}},
		{"more ranks than GPUs", [][]device.Info{two, two, two}, []string{"3 local ranks but only 2 devices"}},
		{"none", [][]device.Info{{}, two}, []string{"no GPU is visible"}},
	} {
		chosen, f := compareDevices(tt.visible, false)
		if chosen != nil {
			t.Errorf("%s: chose %v", tt.name, chosen)
		}
		want(t, f, Failed, No, tt.words...)
	}
	chosen, f := compareDevices([][]device.Info{{gpu(1)}, {gpu(1)}}, true)
	want(t, f, OK, Yes, "--share-gpu")
	if !shares(chosen) {
		t.Error("the devices are not said to be shared")
	}
}

func TestMemory(t *testing.T) {
	want(t, memory(10<<30, 80<<30, 2<<30, 1), OK, Yes, "10 GiB free of 80 GiB", "2.0 GiB")
	want(t, memory(100<<20, 80<<30, 2<<30, 1), Failed, No, "100 MiB free", "--maxbytes")
}

// A run that cannot use NVLS prints the finding that the doctor has for it: the
// same id, the same remedy.
func TestRunsSayTheSame(t *testing.T) {
	for _, code := range []device.Code{device.InvalidValue, device.OutOfMemory, device.IllegalState, device.Unknown} {
		t.Run(fmt.Sprint(int(code)), func(t *testing.T) {
			texts := make([]string, 2)
			grouptest.Run(t, 2, func(_ int, o *collective.Options) {
				o.Sim.Fail = func(call string, _ int) device.Code {
					if call == "cuMulticastBindMem" {
						return code
					}
					return 0
				}
			}, func(r *grouptest.Rank) {
				m := r.Alloc(1 << 20)
				z := nvls.NewZeroCopy(r.Group, collective.Tuning{})
				err := z.Register(t.Context(), m)
				if failure.CodeOf(err) != failure.Unavailable {
					r.Fatalf("a run gives %v", err)
				}
				texts[r.Rank()] = err.Error()
				r.Close(m)
			})
			f := judgeMulticast([]told{{Rank: 0, End: &ending{Text: texts[0], Code: failure.Unavailable}}, {Rank: 1, End: &ending{Text: texts[1], Code: failure.Unavailable}}}, false)
			reason, ok := nvls.ReasonIn(texts[0])
			if !ok || texts[0] != texts[1] {
				t.Fatalf("the run says %q and %q", texts[0], texts[1])
			}
			want(t, f, Failed, No, fmt.Sprintf("error %d ", code), "["+reason.ID+"]")
			if f.Do != reason.Do || !strings.Contains(texts[0], reason.Do) || !strings.Contains(texts[0], string(reason.By)) {
				t.Errorf("the run says %q, the doctor %q", texts[0], f.Do)
			}
		})
	}
}

func TestText(t *testing.T) {
	r := &Report{Version: "v1", Host: "node7", Ranks: 2, Device: "cuda", Verdict: Verdict{Text: "ring will work here", Wanted: []string{"ring"}},
		Findings: []Finding{
			{ID: "a", Severity: OK, Outcome: Yes, What: "well", Evidence: evidence("v", "there"), Ranks: []int{0, 1}},
			{ID: "b", Severity: Warning, Outcome: Unknown, What: "whether", Evidence: evidence("lines\nof text", "there"), Ranks: []int{1}},
			costs("c", "broken", nvlsModes, "repair it", failure.User, Evidence{"v", "there"})}}
	var b strings.Builder
	if err := r.write(&b); err != nil {
		t.Fatal(err)
	}
	const want = `verdict: ring will work here
# nvls-allreduce doctor v1 on node7, 2 ranks, device cuda; asked for ring: exit code 0
ok       a: well
         v (there)
warning  b: could not tell: whether (rank 1)
         lines of text (there)
failed   c: broken
         v (there)
         costs: nvls-zero-copy and nvls-copy-in
         to do (user): repair it
`
	r.Findings[2].Ranks = []int{0, 1}
	b.Reset()
	if err := r.write(&b); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Error(diff)
	}
}
