package result_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
)

// Encode writes rows one by one; the text is that of encoding all at once.
func TestEncodeIsPlainJSON(t *testing.T) {
	for _, rows := range []int{0, 1, 2, len(sample().Rows)} {
		r := sample()
		r.Notes = []string{"\n  \"rows\": []", "<&>\u2028"}
		r.Rows = r.Rows[:rows]
		var got bytes.Buffer
		if err := result.Encode(&got, r); err != nil {
			t.Fatal(err)
		}
		var want bytes.Buffer
		e := json.NewEncoder(&want)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		if err := e.Encode(struct {
			Schema string `json:"schema"`
			*result.Run
			Totals result.Totals `json:"totals"`
		}{result.Schema, r, r.Totals()}); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Bytes(), want.Bytes()) {
			t.Errorf("%d rows:\n%s", rows, &got)
		}
	}
}
