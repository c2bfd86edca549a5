package collective

import "fmt"

// Op is a reduction operation. Names and order are NCCL's.
type Op uint8

const (
	Sum Op = iota
	Prod
	Max
	Min
	// Avg is the sum divided by the number of ranks: a division in the element's
	// type for integers (truncating) and double, in float for the others.
	Avg
)

// Ops lists every operation in the order of nccl-tests.
func Ops() []Op { return []Op{Sum, Prod, Max, Min, Avg} }

var ops = [...]string{Sum: "sum", Prod: "prod", Max: "max", Min: "min", Avg: "avg"}

// String gives the name that nccl-tests uses.
func (o Op) String() string {
	if int(o) >= len(ops) {
		return fmt.Sprintf("Op(%d)", uint8(o))
	}
	return ops[o]
}

// ParseOp finds an operation by its name.
func ParseOp(s string) (Op, error) {
	for i, n := range ops {
		if n == s {
			return Op(i), nil
		}
	}
	return 0, unknownName("operation", s, names(Ops()))
}
