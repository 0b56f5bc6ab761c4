/** Extracts from the sources the texts that people read, so that each plugin's can be judged together. */
import { readFileSync } from 'node:fs'
import ts from 'typescript'
import { GLOSSARY, page, table } from './pages.js'

interface Message { readonly path: string, readonly line: number, readonly text: string }

const MIN_WORDS = 3
const SQL = /^(SELECT|INSERT|UPDATE|DELETE|CREATE|PRAGMA|BEGIN|DROP|ALTER|WITH)\b/
const CODE = /=>|\{%|<\||;$|;\n|^\w+="/
const WORD = /(^|[\s("'`])[A-Za-z][a-z']*(?=[\s,.;:!?)"'`]|$)/g

/** The messages of one source file, in source order. Pure. */
export function messagesIn (path: string, source: string): Message[] {
  const tree = ts.createSourceFile(path, source, ts.ScriptTarget.ESNext, true)
  const found: Message[] = []
  const visit = (node: ts.Node): void => {
    if (ts.isImportDeclaration(node) || ts.isExportDeclaration(node) || ts.isTypeNode(node)) return
    const text = textOf(node)
    if (text === undefined) { node.forEachChild(visit); return }
    if (isMessage(text)) {
      found.push({ path, line: tree.getLineAndCharacterOfPosition(node.getStart(tree)).line + 1, text })
    }
    inside(node, visit)
  }
  visit(tree)
  return found
}

/** Literals inside the values of a template or a concatenation are separate messages. */
function inside (node: ts.Node, visit: (node: ts.Node) => void): void {
  if (ts.isTemplateExpression(node)) for (const { expression } of node.templateSpans) visit(expression)
  else if (ts.isBinaryExpression(node)) for (const side of [node.left, node.right]) inside(side, visit)
}

/** The text of a literal, a template or a concatenation; undefined for another expression. */
function textOf (node: ts.Node): string | undefined {
  if (ts.isStringLiteralLike(node)) return node.text
  if (ts.isTemplateExpression(node)) {
    const spans = node.templateSpans.map(({ expression, literal }) => valueOf(expression) + literal.text)
    return node.head.text + spans.join('')
  }
  if (!ts.isBinaryExpression(node) || node.operatorToken.kind !== ts.SyntaxKind.PlusToken) return undefined
  const [left, right] = [node.left, node.right].map(textOf)
  if (left === undefined && right === undefined) return undefined
  return (left ?? valueOf(node.left)) + (right ?? valueOf(node.right))
}

/** Placeholder for an inserted value: the last name of its expression, as `{name}`. */
function valueOf (node: ts.Expression): string {
  const name = /(\w+)(\(.*\))?$/s.exec(node.getText().trim())?.[1]
  return `{${name === undefined || name.length > 24 ? '…' : name}}`
}

function isMessage (text: string): boolean {
  return !SQL.test(text) && !CODE.test(text) && (text.match(WORD) ?? []).length >= MIN_WORDS
}

/** One table of messages per plugin, and one of the kernel; `paths` are source files below `root`. */
export function messagesPage (root: string, paths: readonly string[]): string {
  const owner = (path: string): string => /^plugins\/([\w-]+)\//.exec(path)?.[1] ?? 'kernel'
  const found = paths.flatMap((path) => messagesIn(path, readFileSync(root + path, 'utf8')))
  const owners = [...new Set(found.map(({ path }) => owner(path)))].sort((a, b) => a < b ? -1 : 1)
  const tables = owners.map((name) => {
    const rows = found.filter(({ path }) => owner(path) === name)
    return `## ${name}\n\n${table(['File', 'Text'], rows.map(({ path, text }) => [path, text]))}`
  })
  return page('Messages', 'Every text that people read, as the sources have it, so that the messages of ' +
    'one plugin can be judged together. `{name}` is a value. ' + GLOSSARY, tables.join('\n\n'))
}
