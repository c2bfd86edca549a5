package report

import (
	"fmt"
	"io"
	"strings"
)

// writeMarkdown writes GitHub's Markdown, charts as PNG beside it.
func writeMarkdown(w io.Writer, p *page) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n", inline(p.Title))
	for _, l := range p.Labels {
		fmt.Fprintf(&b, "\n**%s**\n", inline(l))
	}
	for _, x := range p.Blocks {
		b.WriteByte('\n')
		switch {
		case x.Heading != "":
			title := x.Heading
			if len(p.Labels) > 0 {
				title += " (" + strings.Join(p.Labels, ", ") + ")"
			}
			fmt.Fprintf(&b, "## %s\n", inline(title))
		case x.Subheading != "":
			fmt.Fprintf(&b, "### %s\n", inline(x.Subheading))
		case x.Text != "":
			fmt.Fprintf(&b, "%s\n", inline(x.Text))
		case x.Warning != "":
			fmt.Fprintf(&b, "> **%s**\n", inline(x.Warning))
		case x.Code != "":
			fence := "```"
			for strings.Contains(x.Code, fence) {
				fence += "`"
			}
			fmt.Fprintf(&b, "%s\n%s\n%s\n", fence, x.Code, fence)
		case x.Chart != nil:
			fmt.Fprintf(&b, "![%s](%s)\n", inline(x.Chart.Alt), x.Chart.File)
		case x.Table != nil:
			markdownTable(&b, x.Table)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func markdownTable(b *strings.Builder, t *table) {
	line := func(cells []string) {
		b.WriteByte('|')
		for _, c := range cells {
			fmt.Fprintf(b, " %s |", inline(c))
		}
		b.WriteByte('\n')
	}
	names, rules := make([]string, len(t.Columns)), "|"
	for i, c := range t.Columns {
		names[i] = c.Name
		if rules += " --- |"; c.Number {
			rules = strings.TrimSuffix(rules, " |") + ": |"
		}
	}
	line(names)
	b.WriteString(rules + "\n")
	for _, r := range t.Rows {
		line(r)
	}
	if len(t.Same) > 0 {
		fmt.Fprintf(b, "\nThe same in all rows: %s.\n", inline(strings.Join(t.Same, ", ")))
	}
}

// markup are the characters that Markdown or HTML in it would take for more than
// themselves.
var markup = strings.NewReplacer(`\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "|", `\|`, "[", `\[`, "]", `\]`,
	"<", "&lt;", ">", "&gt;", "&", "&amp;", "#", `\#`, "~", `\~`, "\n", " ", "\r", " ")

func inline(s string) string { return markup.Replace(s) }
