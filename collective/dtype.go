package collective

import "fmt"

// DType is the type of an element. Names and order are NCCL's and nccl-tests'.
type DType uint8

const (
	Int8 DType = iota
	Uint8
	Int32
	Uint32
	Int64
	Uint64
	Half
	Float
	Double
	BFloat16
)

// DTypes lists every data type in the order of nccl-tests.
func DTypes() []DType {
	return []DType{Int8, Uint8, Int32, Uint32, Int64, Uint64, Half, Float, Double, BFloat16}
}

var dtypes = [...]struct {
	name string
	size int
}{
	Int8: {"int8", 1}, Uint8: {"uint8", 1}, Int32: {"int32", 4}, Uint32: {"uint32", 4},
	Int64: {"int64", 8}, Uint64: {"uint64", 8}, Half: {"half", 2}, Float: {"float", 4},
	Double: {"double", 8}, BFloat16: {"bfloat16", 2},
}

// Size is the number of bytes of an element.
func (d DType) Size() int { return dtypes[d].size }

// String gives the name that nccl-tests uses: int8, …, half, float, double, bfloat16.
func (d DType) String() string {
	if int(d) >= len(dtypes) {
		return fmt.Sprintf("DType(%d)", uint8(d))
	}
	return dtypes[d].name
}

// IsFloat reports whether d is a floating-point type.
func (d DType) IsFloat() bool {
	return d == Half || d == Float || d == Double || d == BFloat16
}

// ParseDType finds a data type by its name.
func ParseDType(s string) (DType, error) {
	for i, t := range dtypes {
		if t.name == s {
			return DType(i), nil
		}
	}
	return 0, unknownName("data type", s, names(DTypes()))
}
