package configs

import (
	"reflect"
	"strconv"
	"testing"
	"time"
)

// TestTakes holds what is said of a key's values to what Validate does: every key
// of numbers has words, and its example is valid.
func TestTakes(t *testing.T) {
	for _, k := range keys {
		words, example := Takes(k.String())
		c := Default()
		var v any
		switch f := k.field(c); f.Interface().(type) {
		case int:
			v, _ = strconv.Atoi(example)
		case float64:
			v, _ = strconv.ParseFloat(example, 64)
		case Size:
			v = example
		case time.Duration:
			v, _ = time.ParseDuration(example)
		default:
			if f.Kind() != reflect.String || words == "" {
				continue
			}
			v = example
		}
		if words == "" || example == "" {
			t.Errorf("nothing is said of the values of %v", k)
			continue
		}
		if err := c.Apply([]Setting{{Key: k.String(), Value: v, Origin: "test"}}); err != nil {
			t.Errorf("%v = %s: %v", k, example, err)
		}
		// A step wants more of the sweep than an example can say.
		if err := c.Validate(); err != nil && k.String() != "sweep.step_bytes" {
			t.Errorf("%v = %s: %v", k, example, err)
		}
	}
	for name, b := range bounds {
		c := Default()
		k, ok := findKey(name)
		if !ok {
			t.Fatalf("no key %s", name)
		}
		for n, valid := range map[int]bool{b.low: true, b.high: true, b.low - 1: false, b.high + 1: false} {
			k.field(c).SetInt(int64(n))
			if err := c.Validate(); (err == nil) != valid {
				t.Errorf("%s = %d: %v", name, n, err)
			}
		}
	}
}
