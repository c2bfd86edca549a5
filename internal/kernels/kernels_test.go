package kernels

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unsafe"
)

var elements = []string{"int8", "uint8", "int32", "uint32", "int64", "uint64", "half", "float", "double", "bfloat16"}

// The compiler's view of the argument structs is in the PTX: the size of each
// kernel's parameter.
func TestArgumentSizes(t *testing.T) {
	param := regexp.MustCompile(`\.param \.align 8 \.b8 (\w+)_param_0\[(\d+)\]`)
	for _, e := range elements {
		ptx, err := Module(e, Fill)
		if err != nil {
			t.Fatal(err)
		}
		bulk, err := Module(e, PushBulk)
		if err != nil {
			t.Fatal(err)
		}
		found := param.FindAllStringSubmatch(ptx+bulk, -1)
		if len(found) != 10*4 {
			t.Fatalf("%s: %d kernels, want 40", e, len(found))
		}
		for _, m := range found {
			want := unsafe.Sizeof(Args{})
			if strings.HasPrefix(m[1], "fill_") || strings.HasPrefix(m[1], "check_") {
				want = unsafe.Sizeof(DataArgs{})
			}
			if fmt.Sprint(want) != m[2] {
				t.Errorf("%s %s: parameter of %s bytes, Go has %d", e, m[1], m[2], want)
			}
		}
	}
}

// Offsets inside the structs are checked by the C++ compiler.
func TestLayouts(t *testing.T) {
	clang := clangPath(t)
	var a Args
	checks := map[string]uintptr{
		"offsetof(Args, peerOut)": unsafe.Offsetof(a.PeerOut), "offsetof(Args, in)": unsafe.Offsetof(a.In),
		"offsetof(Args, multicastIn)": unsafe.Offsetof(a.MulticastIn), "offsetof(Args, count)": unsafe.Offsetof(a.Count),
		"offsetof(Args, head)": unsafe.Offsetof(a.Head), "offsetof(Args, chunk)": unsafe.Offsetof(a.Chunk),
		"offsetof(Args, scratch)": unsafe.Offsetof(a.Scratch), "offsetof(Args, timeout)": unsafe.Offsetof(a.Timeout),
		"offsetof(Args, average)": unsafe.Offsetof(a.Average), "offsetof(Args, rank)": unsafe.Offsetof(a.Rank), "offsetof(Args, slots)": unsafe.Offsetof(a.Slots),
		"sizeof(Args)": unsafe.Sizeof(a), "sizeof(Signals)": SignalBytes, "offsetof(Signals, status)": StatusOffset,
		"sizeof(Status)": StatusBytes, "offsetof(Signals, peer)": PeersOffset,
		"sizeof(Average)": unsafe.Sizeof(Average{}), "offsetof(Average, divisor)": unsafe.Offsetof(Average{}.Divisor),
		"offsetof(Args, outsideChunk)": unsafe.Offsetof(a.OutsideChunk), "offsetof(DataArgs, average)": unsafe.Offsetof(DataArgs{}.Average),
		"sizeof(DataArgs)": unsafe.Sizeof(DataArgs{}), "offsetof(DataArgs, seed)": unsafe.Offsetof(DataArgs{}.Seed),
		"u64(kMaxRanks)": MaxRanks, "u64(kMaxBlocks)": MaxBlocks, "u64(kStagingSlots)": StagingSlots,
		"u64(kBulkShared)": BulkSharedBytes, "sizeof(LinkArgs)": unsafe.Sizeof(LinkArgs{}), "offsetof(LinkArgs, sink)": unsafe.Offsetof(LinkArgs{}.Sink),
	}
	var b strings.Builder
	b.WriteString("#include \"copy_in.cuh\"\n#include \"data.cuh\"\n#include \"link.cuh\"\n#include \"push_bulk.cuh\"\n#define offsetof __builtin_offsetof\n")
	for expr, v := range checks {
		fmt.Fprintf(&b, "static_assert(%s == %d, \"\");\n", expr, v)
	}
	src := filepath.Join(t.TempDir(), "layout.cu")
	if err := os.WriteFile(src, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(clang, "-x", "cuda", "--cuda-device-only", "-nocudainc", "-nocudalib", "--cuda-gpu-arch=sm_80",
		"-std=c++20", "-fsyntax-only", "-I", "src", src).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// The committed PTX is what the sources compile to.
func TestPTXIsCurrent(t *testing.T) {
	clang := clangPath(t)
	dir := t.TempDir()
	cmd := exec.Command("./build.sh", dir)
	cmd.Env = append(os.Environ(), "CLANG="+clang)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build.sh: %v\n%s", err, out)
	}
	committed, err := filepath.Glob("ptx/*.ptx")
	if err != nil {
		t.Fatal(err)
	}
	built, err := filepath.Glob(filepath.Join(dir, "*.ptx"))
	if err != nil {
		t.Fatal(err)
	}
	if len(committed) != len(built) {
		t.Errorf("%d PTX files are committed, %d are built", len(committed), len(built))
	}
	for _, f := range built {
		want, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join("ptx", filepath.Base(f)))
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(want) {
			t.Errorf("ptx/%s is not what the sources compile to: run make kernels", filepath.Base(f))
		}
	}
}

// clangPath finds the compiler that the PTX is made with. Another version makes
// other PTX, so nothing else will do.
func clangPath(t *testing.T) string {
	p, err := exec.LookPath("clang-19")
	if err != nil {
		if os.Getenv("NVLS_ALLREDUCE_REQUIRE") == "all" {
			t.Fatal("clang-19 is not installed (package clang-19)")
		}
		t.Skip("clang-19 is not installed (package clang-19)")
	}
	return p
}

func TestCut(t *testing.T) {
	ptx, err := Module("float", NVLSCopyIn)
	if err != nil {
		t.Fatal(err)
	}
	cut, err := Cut(ptx, "nvls_copy_in_sum")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(cut, ".entry"); n != 1 || !strings.Contains(cut, ".target sm_90") {
		t.Errorf("%d entries", n)
	}
	if _, err := Cut(ptx, "ring_sum"); err == nil {
		t.Error("found a kernel that is not there")
	}
	if _, err := Module("int8", NVLSCopyIn); err == nil {
		t.Error("the switch has no 8-bit arithmetic, yet there is a module")
	}
}

func TestDecodeStatus(t *testing.T) {
	b := make([]byte, StatusBytes)
	if _, ok := DecodeStatus(b); ok {
		t.Error("an empty status reads as a failure")
	}
	for i, v := range []byte{6, 2, 5, 1, 9, 8} {
		b[4*i] = v
	}
	s, ok := DecodeStatus(b)
	want := "rank 2, block 5 waited for the previous rank's data in the ring; rank 1 did not answer (counter 8, expected 9)"
	if !ok || s.String() != want {
		t.Errorf("%v: %s", ok, s)
	}
}

// Each family is in one module, which older GPUs than its capability never see.
func TestCapability(t *testing.T) {
	for _, f := range []Family{OneShot, TwoShot, Packet, Push, PushBulk, Ring, CopyIn, NVLSZeroCopy, NVLSCopyIn, Fill, Check} {
		ptx, err := Module("float", f)
		if err != nil {
			t.Fatal(err)
		}
		major, minor := f.Capability()
		if want := fmt.Sprintf(".target sm_%d%d\n", major, minor); !strings.Contains(ptx, want) {
			t.Errorf("%s is not in a module with %q", f, want)
		}
		text, err := Cut(ptx, Entry(f, "sum"))
		if err != nil {
			t.Fatal(err)
		}
		bulk, shared := strings.Contains(text, "cp.async.bulk."), strings.Contains(text, ".extern .shared")
		if bulk != (f == PushBulk) || shared != (f.SharedBytes() > 0) || strings.Contains(text, "multimem.") != f.NeedsMulticast() {
			t.Errorf("%s: bulk copies %v, dynamic shared memory %v of %d bytes", f, bulk, shared, f.SharedBytes())
		}
	}
}
