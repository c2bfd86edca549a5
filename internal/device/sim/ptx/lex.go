package ptx

import "strings"

type tokenKind uint8

const (
	tokEOF    tokenKind = iota
	tokIdent            // name, %name, $name
	tokDot              // .name, with :: inside
	tokNumber           // as written, without sign
	tokString           // with its quotes
	tokPunct            // one character
)

type token struct {
	kind       tokenKind
	text       string
	line       int
	start, end int // byte offsets in the source
}

func isNameStart(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c == '$' || c == '%'
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isNamePart(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c == '$' || isDigit(c)
}

// lex cuts a text into tokens. Comments and white space are dropped.
func lex(src string) ([]token, error) {
	toks := make([]token, 0, len(src)/4+1) // PTX has about one token in five bytes
	line := 1
	fail := func(msg string, pos int) error {
		return &SyntaxError{Line: line, Text: lineAt(src, pos), Msg: msg}
	}
	for i := 0; i < len(src); {
		c := src[i]
		start := i
		switch {
		case c == '\n':
			line++
			i++
		case c == ' ' || c == '\t' || c == '\r':
			i++
		case strings.HasPrefix(src[i:], "//"):
			for i < len(src) && src[i] != '\n' {
				i++
			}
		case strings.HasPrefix(src[i:], "/*"):
			n := strings.Index(src[i+2:], "*/")
			if n < 0 {
				return nil, fail("comment without end", i)
			}
			line += strings.Count(src[i:i+n+4], "\n")
			i += n + 4
		case c == '"':
			i++
			for i < len(src) && src[i] != '"' && src[i] != '\n' {
				i++
			}
			if i >= len(src) || src[i] != '"' {
				return nil, fail("string without end", start)
			}
			i++
			toks = append(toks, token{tokString, src[start:i], line, start, i})
		case isNameStart(c):
			i++
			for i < len(src) && isNamePart(src[i]) {
				i++
			}
			toks = append(toks, token{tokIdent, src[start:i], line, start, i})
		case isDigit(c):
			i++
			for i < len(src) && (isNamePart(src[i]) || src[i] == '.' && i+1 < len(src) && isDigit(src[i+1])) {
				i++
			}
			toks = append(toks, token{tokNumber, src[start:i], line, start, i})
		case c == '.':
			i++
			for i < len(src) && (isNamePart(src[i]) || strings.HasPrefix(src[i:], "::")) {
				if src[i] == ':' {
					i++
				}
				i++
			}
			if i == start+1 {
				return nil, fail("a name must follow the dot", start)
			}
			toks = append(toks, token{tokDot, src[start:i], line, start, i})
		case strings.IndexByte("{}()[]<>,;:@!+-|=", c) >= 0:
			i++
			toks = append(toks, token{tokPunct, src[start:i], line, start, i})
		default:
			return nil, fail("character that PTX does not have", i)
		}
	}
	return append(toks, token{tokEOF, "end of text", line, len(src), len(src)}), nil
}

// lineAt gives the line of src around pos.
func lineAt(src string, pos int) string {
	pos = min(pos, len(src))
	from := strings.LastIndexByte(src[:pos], '\n') + 1
	to := len(src)
	if n := strings.IndexByte(src[pos:], '\n'); n >= 0 {
		to = pos + n
	}
	return src[from:to]
}
