package plots

import (
	"io"
	"path/filepath"
	"strings"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"

	"github.com/nvls-allreduce/nvls-allreduce/internal/failure"
	"github.com/nvls-allreduce/nvls-allreduce/internal/result"
)

// Format is a file format of charts.
type Format string

const (
	PNG Format = "png"
	SVG Format = "svg"
	PDF Format = "pdf"
)

// FormatOf finds the format by the suffix of a file name. The error is a failure
// with code Usage.
func FormatOf(path string) (Format, error) {
	switch f := Format(strings.TrimPrefix(strings.ToLower(filepath.Ext(path)), ".")); f {
	case PNG, SVG, PDF:
		return f, nil
	}
	e := failure.New(failure.Usage, "no chart format for %q", path)
	e.Do, e.By = "name the file .png, .svg or .pdf", failure.User
	return "", e
}

// dpi is the dots per inch of a PNG: print quality for a chart of a column's
// width, screen quality for larger ones.
func dpi(width vg.Length) int {
	if width <= 13*vg.Centimeter {
		return 300
	}
	return 144
}

// Render draws the chart of runs to w: a panel for each kind of Options, in each
// a line for each mode. It is an error (a failure with code Usage) if the runs
// have no row to draw, or nothing of one of the kinds.
func Render(w io.Writer, f Format, runs []*Run, o Options) error {
	c, err := newChart(runs, o)
	if err != nil {
		return err
	}
	width, height := c.size.Width, c.size.Height
	switch f {
	case PNG:
		img := vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(dpi(width)), vgimg.UseBackgroundColor(c.theme.back))
		c.draw(draw.New(img))
		_, err = vgimg.PngCanvas{Canvas: img}.WriteTo(w)
	case SVG:
		err = writeSVG(w, c)
	case PDF:
		err = writePDF(w, c, runs[0].Start)
	default:
		err = failure.New(failure.Usage, "unknown chart format %q", f)
	}
	return err
}

// WriteFile draws the chart of runs into a file, in the format of its suffix. An
// old file is replaced whole or, on an error, stays.
func WriteFile(path string, runs []*Run, o Options) error {
	f, err := FormatOf(path)
	if err != nil {
		return err
	}
	return result.Replace(path, func(w io.Writer) error { return Render(w, f, runs, o) })
}
