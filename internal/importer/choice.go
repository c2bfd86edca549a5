package importer

// Choice reads the text of one INFO TUNING message of NCCL, after "NCCL INFO ", and
// names the algorithm that it tells of an all-reduce as rows of results do. It is
// false for any other message.
func Choice(message string) (algorithm string, ok bool) {
	p, why := new(tuning).parse(message)
	if why != "" || p.Function != "" && p.Function != "AllReduce" {
		return "", false
	}
	return algorithmOf(p), true
}
