import {
  isAlias, isCollection, isMap, isScalar, isSeq, Lexer, LineCounter, parseDocument, Parser, type Document,
  type Node, type Pair
} from 'yaml'
import { emptyTree, formatPath, isForbiddenKey, isTree, pathKey, type Path, type Tree } from './paths.js'
import type { Problem } from './problems.js'

export interface Position { readonly line: number, readonly column: number }

export interface RawConfig {
  readonly file: string | null
  /** The settings as written; maps have no prototype. */
  readonly value: Readonly<Record<string, unknown>>
  readonly problems: readonly Problem[]
  /** True if the file cannot be read or parsed; `value` is then empty. */
  readonly broken: boolean
  /** Position of a path's key in the file; undefined if the file lacks the key. */
  position (path: Path): Position | undefined
}

/** Maximum nesting depth in svc.yaml: the YAML composer recurses, and a stack overflow ends the process. */
const maxDepth = 64
const maxSyntaxProblems = 20
const plainTag = /^(!|tag:yaml\.org,2002:(str|int|float|bool|null|map|seq))$/

export const yamlOptions = {
  version: '1.2',
  schema: 'core',
  merge: false,
  resolveKnownTags: false,
  prettyErrors: false,
  logLevel: 'error',
  // Off, since it would compare every pair of keys; `readNode` finds repeated keys in one pass.
  uniqueKeys: false
} as const

interface Reader {
  readonly file: string | null
  readonly lines: LineCounter
  readonly problems: Problem[]
  readonly positions: Map<string, Position>
}

/** Parses the text of a svc.yaml; `file` (absolute path) is only used in problems. Never throws. */
export function readConfigText (text: string, file: string | null): RawConfig {
  const lines = new LineCounter()
  const reader: Reader = { file, lines, problems: [], positions: new Map() }
  const document = parse(text, reader)
  const broken = document === null
  const value = broken ? undefined : readNode(reader, document.contents, [])
  if (!broken && value !== null && value !== undefined && !isTree(value)) {
    report(reader, [], 0, 'expected keys with values at the top of the file')
  }
  return {
    file, value: isTree(value) ? value : emptyTree(), problems: reader.problems, broken,
    position: (path) => reader.positions.get(pathKey(path))
  }
}

function parse (text: string, reader: Reader): Document | null {
  const nul = text.indexOf('\0')
  const deep = nul < 0 ? tooDeep(text) : null
  if (nul >= 0 || deep !== null) {
    reader.lines.addNewLine(0)
    for (const { index } of text.matchAll(/\n/g)) reader.lines.addNewLine(index + 1)
    const message = deep === null ? 'has a NUL character' : `nests deeper than ${maxDepth} levels`
    report(reader, [], deep ?? nul, message)
    return null
  }
  const document = parseDocument(text, { ...yamlOptions, lineCounter: reader.lines })
  for (const { message, pos } of document.errors.slice(0, maxSyntaxProblems)) {
    report(reader, [], pos[0], sentence(message))
  }
  return document.errors.length === 0 ? document : null
}

/** Replaces a library message about the library's own API, which users would not understand. */
function sentence (message: string): string {
  const many = message.startsWith('Source contains multiple documents')
  return many ? 'only one YAML document is supported' : message
}

/**
 * Offset at which the text exceeds the nesting limit, or null. Uses the YAML library's lexer and parser,
 * which do not recurse.
 */
function tooDeep (text: string): number | null {
  const parser = new Parser()
  let offset = 0
  for (const lexeme of new Lexer().lex(text)) {
    for (const token of parser.next(lexeme)) void token
    offset += lexeme.length
    if (parser.stack.length > maxDepth * 2) return Math.min(offset, text.length)
  }
  return null
}

function report (reader: Reader, path: Path, offset: number | undefined, message: string): void {
  const place = offset === undefined ? null : reader.lines.linePos(offset)
  reader.problems.push({
    file: reader.file, line: place?.line ?? null, column: place?.col ?? null, path: formatPath(path), message
  })
}

/** Converts a YAML node to plain data, records key positions and reports unsupported syntax. */
function readNode (reader: Reader, node: Node | null, path: Path): unknown {
  if (node === null) return null
  if (isAlias(node)) return refuse(reader, path, node, 'aliases (*name) are not accepted')
  if (isCollection(node) || isScalar(node)) {
    if (node.anchor !== undefined) refuse(reader, path, node, 'anchors (&name) are not accepted')
    if (node.tag !== undefined && !plainTag.test(node.tag)) {
      return refuse(reader, path, node, `the tag ${node.tag} is not accepted`)
    }
  }
  if (isMap(node)) return readMap(reader, node.items as Pair<Node | null, Node | null>[], path)
  if (isSeq(node)) return readList(reader, node.items as Node[], path)
  return isScalar(node) ? node.value : undefined
}

function refuse (reader: Reader, path: Path, node: Node | null, message: string): undefined {
  report(reader, path, node?.range?.[0], message)
}

function readList (reader: Reader, items: readonly Node[], path: Path): unknown[] {
  return items.map((item, index) => {
    const at = [...path, String(index)]
    notePosition(reader, at, item)
    return readNode(reader, item, at)
  })
}

function readMap (reader: Reader, items: readonly Pair<Node | null, Node | null>[], path: Path): Tree {
  const tree = emptyTree()
  for (const { key: keyNode, value } of items) {
    const key = keyText(keyNode)
    if (key === null || isForbiddenKey(key)) {
      const message = key === null ? 'a key must be plain text' : `the key ${key} is not accepted`
      refuse(reader, path, keyNode, message)
      continue
    }
    const at = [...path, key]
    const earlier = reader.positions.get(pathKey(at))
    if (earlier !== undefined) {
      refuse(reader, at, keyNode, `the key is repeated; the first is on line ${earlier.line}`)
      continue
    }
    notePosition(reader, at, keyNode as Node)
    const read = readNode(reader, value, at)
    if (read !== undefined) tree[key] = read
  }
  return tree
}

function notePosition (reader: Reader, path: Path, node: Node): void {
  const place = reader.lines.linePos(node.range?.[0] ?? 0)
  reader.positions.set(pathKey(path), { line: place.line, column: place.col })
}

/** A key as text; numbers and words like `true` stay as written. */
function keyText (node: Node | null): string | null {
  if (!isScalar(node) || node.anchor !== undefined || node.tag !== undefined) return null
  if (typeof node.value === 'string') return node.value
  return node.value === null ? null : node.source ?? String(node.value)
}
