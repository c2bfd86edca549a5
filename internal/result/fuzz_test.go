package result_test

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
)

// Whatever Decode accepts can be written in every format and read back the same.
func FuzzDecode(f *testing.F) {
	var b bytes.Buffer
	if err := result.Encode(&b, sample()); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add([]byte(`{"schema":"nvls-allreduce/1","status":{"state":"running"},"world_size":1,"rows":[{"mode":"a","placement":"in-place"}]}`))
	f.Add([]byte(`{"schema":"nvls-allreduce/2"}`))
	f.Add([]byte(`{"schema":"nvls-allreduce/1","status":{"state":"running"},"world_size":1}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := result.Decode(bytes.NewReader(raw))
		if err != nil {
			return
		}
		var j, c, x bytes.Buffer
		if err := result.Encode(&j, r); err != nil {
			t.Fatal(err)
		}
		if err := result.EncodeCSV(&c, r); err != nil {
			t.Fatal(err)
		}
		if err := result.EncodeText(&x, r); err != nil {
			t.Fatal(err)
		}
		again, err := result.Decode(&j)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(r, again, cmpopts.EquateEmpty()); d != "" {
			t.Fatal(d)
		}
	})
}
