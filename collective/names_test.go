package collective

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestNames(t *testing.T) {
	for _, d := range DTypes() {
		if got, err := ParseDType(d.String()); err != nil || got != d {
			t.Errorf("%s: %v, %v", d, got, err)
		}
	}
	for _, op := range Ops() {
		if got, err := ParseOp(op.String()); err != nil || got != op {
			t.Errorf("%s: %v, %v", op, got, err)
		}
	}
	for wrong, nearest := range map[string]string{"FLOAT": "float", "bf16": "bfloat16", "bfloat": "bfloat16", "float16": "half", "doubl": "double", "int644": "int64", "flaot": "float"} {
		_, err := ParseDType(wrong)
		var u *UnknownNameError
		if !errors.As(err, &u) || u.Nearest != nearest || !strings.Contains(err.Error(), "bfloat16") {
			t.Errorf("%s: nearest is not %s: %v", wrong, nearest, err)
		}
	}
	if _, err := ParseOp("average"); err == nil || !strings.Contains(err.Error(), `unknown operation "average"`) {
		t.Errorf("average: %v", err)
	}
	if got := fmt.Sprint(DType(99), Op(99)); got != "DType(99) Op(99)" {
		t.Error(got)
	}
}

func TestFormatBytes(t *testing.T) {
	for n, want := range map[uint64]string{0: "0", 1: "1", 1000: "1000", 1024: "1K", 1536: "1536", 65536: "64K", 1 << 20: "1M", 3 << 30: "3G", 1 << 40: "1024G"} {
		if got := FormatBytes(n); got != want {
			t.Errorf("FormatBytes(%d) = %s, want %s", n, got, want)
		}
	}
}
