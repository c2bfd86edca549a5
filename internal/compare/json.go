package compare

import (
	"encoding/json"
	"io"

	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
)

// Schema names the JSON of a comparison; docs/compare.md describes it.
const Schema = "nvls-allreduce-compare/1"

// side is what the JSON says of a result.
type side struct {
	Name      string        `json:"name"`
	ID        string        `json:"id"`
	Version   string        `json:"version"`
	Tool      string        `json:"tool,omitempty"`
	Device    string        `json:"device"`
	WorldSize int           `json:"world_size"`
	Status    result.Status `json:"status"`
	Mode      string        `json:"mode,omitempty"` // when the sides have modes of their own
	Type      string        `json:"datatype,omitempty"`
	Missing   []string      `json:"missing_modes,omitempty"` // asked for, without rows
}

// WriteJSON writes everything of the comparison. below is the ratio that was
// asked for, 0 when none, and failures what fails it or a goal.
func (c *Comparison) WriteJSON(w io.Writer, names Names, below float64, failures []string) error {
	of := func(name, mode, datatype string, missing []string, r *result.Run) side {
		return side{name, r.ID, r.Version, r.Tool, r.DeviceName(), r.WorldSize, r.Status, mode, datatype, missing}
	}
	list := func(k []Key) []Key {
		if k == nil {
			return []Key{}
		}
		return k
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(struct {
		Schema     string          `json:"schema"`
		A          side            `json:"a"`
		B          side            `json:"b"`
		Simulated  bool            `json:"simulated"`
		SharedGPU  bool            `json:"shared_gpu"`
		Labels     []string        `json:"labels,omitempty"`
		Method     string          `json:"method"`
		Confidence float64         `json:"confidence"`
		Rows       []Row           `json:"rows"`
		OnlyA      []Key           `json:"only_a"`
		OnlyB      []Key           `json:"only_b"`
		Verdicts   map[Verdict]int `json:"verdicts"`
		Goals      []Goal          `json:"goals,omitempty"`
		Below      float64         `json:"fail_below,omitempty"`
		Failures   []string        `json:"failures,omitempty"`
	}{
		Schema, of(names.A, c.ModeA, c.TypeA, c.MissingA, c.A), of(names.B, c.ModeB, c.TypeB, c.MissingB, c.B), c.A.Simulated, c.A.SharedGPU, c.A.Labels(), Method, Confidence,
		c.Rows, list(c.OnlyA), list(c.OnlyB), c.Count(), c.Goals, below, failures,
	})
}
