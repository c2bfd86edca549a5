package result

// Source is the place of an imported row or prediction.
type Source struct {
	File string `json:"file"` // as named on the command line
	Line int    `json:"line"` // 1 is the first; 0 in a JSON log
	// Table counts the tables of the file from 1; 0 when it is in none.
	Table int `json:"table,omitempty"`
}

// Range is a spread without a median, as nccl-tests prints with -I.
type Range struct {
	N   int     `json:"n,omitempty"` // iterations; 0 when the log does not tell
	Min float64 `json:"min_us"`
	P99 float64 `json:"p99_us"`
	Max float64 `json:"max_us"`
	CV  float64 `json:"cv_percent"` // standard deviation over mean, in per cent
}

// Prediction is one choice of NCCL's tuning model. Source: the INFO TUNING
// lines of NCCL since 2.20; Time is the model's, and no measurement.
type Prediction struct {
	Size      uint64   `json:"size_bytes"`
	Function  string   `json:"function,omitempty"`  // "AllReduce"; "" in NCCL 2.20 to 2.22
	Algorithm string   `json:"algorithm,omitempty"` // "NVLS", "Ring"; "symmetric", "copy engine"
	Protocol  string   `json:"protocol,omitempty"`  // "LL", "LL128", "Simple"
	Kernel    string   `json:"kernel,omitempty"`    // of a symmetric or copy-engine call
	Time      *float64 `json:"predicted_us"`        // nil when the line gives none
	Channels  int      `json:"channels,omitempty"`
	Threads   int      `json:"threads,omitempty"`
	Works     int      `json:"works,omitempty"`
	Seen      int      `json:"seen"`   // lines that say the same
	Source    Source   `json:"source"` // of the first of them
}
