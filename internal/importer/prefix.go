package importer

import "bytes"

// cutTag splits what a launcher puts before every line of a rank from the
// line: "[1,0]<stdout>:" of Open MPI's mpirun --tag-output, "[0] " of Hydra's
// -prepend-rank, "0: " of srun --label. The tag is empty when there is none.
func cutTag(line []byte) (tag, rest []byte) {
	if len(line) == 0 {
		return nil, line
	}
	if line[0] == '[' {
		end := bytes.IndexByte(line, ']')
		if end < 0 {
			return nil, line
		}
		for _, stream := range [...]string{"<stdout>:", "<stderr>:", "<stddiag>:"} {
			if bytes.HasPrefix(line[end+1:], []byte(stream)) {
				n := end + 1 + len(stream)
				return line[:n], line[n:]
			}
		}
		if digits(line[1:end]) && end+1 < len(line) && line[end+1] == ' ' {
			return line[:end+2], line[end+2:]
		}
		return nil, line
	}
	// srun aligns the numbers of its tasks.
	start := len(line) - len(bytes.TrimLeft(line, " "))
	end := start
	for end < len(line) && line[end] >= '0' && line[end] <= '9' {
		end++
	}
	// A bare "0:" is the label of an empty line.
	if end > start && end-start <= 7 && end < len(line) && line[end] == ':' && (end+1 == len(line) || line[end+1] == ' ') {
		n := min(end+2, len(line))
		return line[:n], line[n:]
	}
	return nil, line
}

// digits reports whether b is a decimal number without sign.
func digits(b []byte) bool {
	for _, c := range b {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(b) > 0
}
