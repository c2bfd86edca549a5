package main

import (
	"bytes"
	"context"
	"reflect"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
)

// TestBadValues gives every flag of a number, a size, a duration or a switch values
// that it cannot have. Each is refused with the flag and the value, or the key, what
// is valid, and never in the words of a parser.
func TestBadValues(t *testing.T) {
	var c cli
	parser, err := kong.New(&c, kong.Vars{"presets": "", "modes": "", "dtypes": "", "ops": "", "maxNP": ""})
	if err != nil {
		t.Fatal(err)
	}
	size := map[string]bool{"minbytes": true, "maxbytes": true, "stepbytes": true, "staging": true, "scratch": true}
	flags := 0
	for _, command := range parser.Model.Children {
		for _, f := range command.Flags {
			// Three commands have the same flags; config does nothing else.
			if (command.Name == "run" || command.Name == "doctor") && f.Name != "np" && f.Name != "json" {
				continue
			}
			bad := []string{"abc", "", "1e999", "5x", "NaN"}
			switch k := f.Target.Kind(); {
			case f.Name == "help":
				continue
			case f.IsBool():
				bad = []string{"maybe", "2"}
			case f.Target.Type() == reflect.TypeFor[average]():
				bad = []string{"9", "-1"}
			case k == reflect.Float64, f.Target.Type() == reflect.TypeFor[seconds](), size[f.Name]:
				bad = append(bad, "-1", "Inf")
			case k == reflect.Int, k == reflect.Pointer:
				bad = append(bad, "-1", "1.5", "1e3")
			default:
				continue
			}
			flags++
			for _, value := range bad {
				for _, args := range [][]string{{"--" + f.Name + "=" + value}, {"--" + f.Name, value}} {
					if len(args) > 1 && value != "-1" {
						continue
					}
					if f.Name == "np" && value == "-1" && command.Name == "config" {
						continue // no rank starts
					}
					line := append([]string{command.Name}, args...)
					switch command.Name {
					case "compare":
						line = append(line, "a.json", "b.json")
					case "import":
						line = append(line, "a.log", "-o", "a.json")
					}
					var stdout, stderr bytes.Buffer
					code := run(context.Background(), line, nil, &stdout, &stderr)
					said := stderr.String()
					if code != int(failure.Usage) || stdout.Len() > 0 || strings.Count(said, "\n") != 1 {
						t.Errorf("%q: exit code %d: %s%s", line, code, &stdout, said)
					}
					if !strings.Contains(said, "--"+f.Name) {
						t.Errorf("%q does not name the flag: %s", line, said)
					}
					if !strings.Contains(said, "give ") && !strings.Contains(said, "write bytes") && !strings.Contains(said, "cannot be negative") && !strings.Contains(said, "largest size") {
						t.Errorf("%q does not say what is valid: %s", line, said)
					}
					for _, raw := range []string{"expected", "bit int", "EOL", "perhaps", "(string)", "strconv", "bool value"} {
						if strings.Contains(said, raw) {
							t.Errorf("%q: the parser's words: %s", line, said)
						}
					}
				}
			}
		}
	}
	if flags < 20 {
		t.Errorf("only %d flags were tried", flags)
	}
}

// -T is a number of seconds in any form, or a duration.
func TestSeconds(t *testing.T) {
	for text, want := range map[string]string{"90": "1m30s", "0.5": "500ms", "1e3": "16m40s", "1E2s": "", "2m": "2m0s", "+5": "5s", "0x10": ""} {
		var stdout, stderr bytes.Buffer
		code := run(context.Background(), []string{"config", "-T", text}, nil, &stdout, &stderr)
		if want == "" {
			if code != int(failure.Usage) || !strings.Contains(stderr.String(), "-T/--timeout "+text+" is not possible") {
				t.Errorf("-T %s: %d %s", text, code, &stderr)
			}
			continue
		}
		if code != 0 || !strings.Contains(stdout.String(), `timeout = "`+want+`"`) {
			t.Errorf("-T %s: %d, want %s in\n%s%s", text, code, want, &stdout, &stderr)
		}
	}
}

// A flag's example is one that the flag takes.
func TestExamples(t *testing.T) {
	var c cli
	parser, err := kong.New(&c, kong.Vars{"presets": "", "modes": "", "dtypes": "", "ops": "", "maxNP": ""})
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range parser.Model.Children {
		for _, f := range command.Flags {
			if words, example := takes(f); words != "" && command.Name == "config" && f.Name != "stepbytes" {
				var stdout, stderr bytes.Buffer
				if code := run(context.Background(), []string{"config", "--" + f.Name, example}, nil, &stdout, &stderr); code != 0 {
					t.Errorf("--%s %s: %s", f.Name, example, &stderr)
				}
			}
		}
	}
}
