package main

import (
	"go/ast"
	"go/parser"
	"go/token"
)

// goEdits returns the edits of a Go file: swapped operators and dropped statements.
func goEdits(text string) (edits []edit, err error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "", text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	offset := func(p token.Pos) int { return files.Position(p).Offset }
	swap := func(p token.Pos, was string) {
		for _, instead := range swaps[was] {
			edits = append(edits, edit{offset(p), offset(p) + len(was), instead})
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GenDecl:
			return false // constants and types
		case *ast.BinaryExpr:
			swap(n.OpPos, n.Op.String())
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.Ident); ok {
				swap(f.Pos(), f.Name)
			}
		case *ast.BlockStmt:
			edits = append(edits, drops(n.List, offset)...)
		case *ast.CaseClause:
			edits = append(edits, drops(n.Body, offset)...)
		}
		return true
	})
	return edits, nil
}

// drops returns edits that each drop one statement of a list. Declarations and returns stay: the rest would not compile.
func drops(list []ast.Stmt, offset func(token.Pos) int) (edits []edit) {
	for _, s := range list {
		switch s := s.(type) {
		case *ast.ReturnStmt:
			continue
		case *ast.AssignStmt:
			if s.Tok == token.DEFINE {
				continue
			}
		case *ast.DeclStmt, *ast.SwitchStmt, *ast.BranchStmt:
			continue
		}
		edits = append(edits, edit{offset(s.Pos()), offset(s.End()), ""})
	}
	return edits
}
