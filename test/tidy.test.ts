import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import ts from 'typescript'
import { kernelManifest } from '../kernel/plugins/kernel-manifest.js'
import { bundled } from '../plugins/index.js'
import { allowed, type Rule } from './tidy-allowed.js'
import type { Manifest } from '../kernel/index.js'

const LINE_COLUMNS = 110
const FILE_LINES = 400
const FUNCTION_LINES = 70

const root = fileURLToPath(new URL('..', import.meta.url))
const skipped = /(^|\/)(node_modules|dist|\.tap)(\/|$)/
/** Files that other tools generate or third parties write, which the rules skip. */
const foreign = /^docs\/(recipes\/voice-en\/|reference\/replies)/

const paths = ['kernel', 'plugins', 'test', 'docs'].flatMap((top) =>
  readdirSync(join(root, top), { recursive: true, encoding: 'utf8' }).map((path) => join(top, path)))
  .filter((path) => !skipped.test(path) && !foreign.test(path)).sort()
const text = new Map(paths.filter((path) => /\.(tsx?|mjs|js)$/.test(path))
  .map((path) => [path, readFileSync(join(root, path), 'utf8')]))
const code = [...text.keys()]
/** Whether a file is browser code, which has its own clocks and packages. */
const inBrowser = (path: string): boolean => path.startsWith('plugins/dashboard/page/')
const sources = code.filter((path) => path.endsWith('.ts') && !isTest(path) && !inBrowser(path))
const pageSources = code.filter((path) => inBrowser(path))
const trees = new Map(code.filter((path) => /\.tsx?$/.test(path)).map((path) =>
  [path, ts.createSourceFile(path, text.get(path)!, ts.ScriptTarget.ESNext, true)]))

function isTest (path: string): boolean { return /(^|\/)(test|fixtures)\//.test(path) }

interface Breach { path: string, what: string }

/** Fails for each breach that is not an allowed exception, and for each exception without a breach. */
function check (rule: Rule, breaches: readonly Breach[]): void {
  t.test(rule, (t) => {
    const list = Object.keys(allowed[rule] ?? {})
    const covers = (entry: string, path: string): boolean =>
      entry.endsWith('/') ? path.startsWith(entry) : path === entry
    for (const { path, what } of breaches) {
      if (!list.some((entry) => covers(entry, path))) t.fail(`${path}: ${what}`)
    }
    for (const entry of list) {
      const used = breaches.some(({ path }) => covers(entry, path))
      if (!entry.endsWith('/')) t.ok(used, `"${entry}" needs no permission any more: take it out`)
    }
    t.pass(`${breaches.length} breaches, ${list.length} places allowed`)
    t.end()
  })
}

/** Calls `visit` for every syntax node of a file. */
function walk (node: ts.Node, visit: (node: ts.Node) => void): void {
  visit(node)
  node.forEachChild((child) => { walk(child, visit) })
}

/** Breaches in the syntax trees of files; `look` returns the breach of a syntax node, if any. */
function inSyntax (files: readonly string[], look: (node: ts.Node) => string | undefined): Breach[] {
  return files.flatMap((path) => {
    const found: Breach[] = []
    const tree = trees.get(path)!
    walk(tree, (node) => {
      const what = look(node)
      const line = tree.getLineAndCharacterOfPosition(node.getStart()).line + 1
      if (what !== undefined) found.push({ path, what: `line ${line}: ${what}` })
    })
    return found
  })
}

/** Breaches in the text of files; `look` returns the breach of a line, if any. */
function inLines (files: readonly string[], look: (line: string) => string | undefined): Breach[] {
  return files.flatMap((path) => readFileSync(join(root, path), 'utf8').split('\n').flatMap((line, i) => {
    const what = look(line)
    return what === undefined ? [] : [{ path, what: `line ${i + 1}: ${what}` }]
  }))
}

function linesOf (node: ts.Node): number {
  const tree = node.getSourceFile()
  const line = (at: number): number => tree.getLineAndCharacterOfPosition(at).line
  return line(node.end) - line(node.getStart()) + 1
}

check('line length', inLines(code, (line) =>
  line.length > LINE_COLUMNS ? `${line.length} columns` : undefined))

check('file length', code.filter((path) => text.get(path)!.split('\n').length - 1 > FILE_LINES)
  .map((path) => ({ path, what: `over ${FILE_LINES} lines` })))

check('function length', inSyntax([...sources, ...pageSources], (node) => {
  if (!ts.isFunctionLike(node)) return undefined
  const length = linesOf(node)
  return length > FUNCTION_LINES ? `a function of ${length} lines` : undefined
}))

const reads = (node: ts.Node, object: string, property?: string): boolean =>
  ts.isPropertyAccessExpression(node) && node.expression.getText() === object &&
  (property === undefined || node.name.text === property)

check('console', inSyntax([...trees.keys()], (node) => reads(node, 'console') ? 'console' : undefined))

check('process.env', inSyntax(sources, (node) => reads(node, 'process', 'env') ? 'process.env' : undefined))

check('time and chance', inSyntax(sources, (node) => {
  if (ts.isCallExpression(node) && ts.isIdentifier(node.expression)) {
    const { text: name } = node.expression
    if (name === 'setTimeout' || name === 'setInterval') return name
  }
  if (reads(node, 'Date', 'now') || reads(node, 'performance', 'now')) return node.getText()
  return reads(node, 'Math', 'random') ? 'Math.random' : undefined
}))

check('types', inSyntax([...trees.keys()], (node) => {
  if (node.kind === ts.SyntaxKind.AnyKeyword) return 'any'
  return ts.isModuleDeclaration(node) ? 'declare module' : undefined
}))

check('silenced compiler', inLines(code.filter((p) => p !== 'test/tidy.test.ts'), (line) =>
  /@ts-(ignore|nocheck)/.test(line) || /@ts-expect-error(?! -- \w)/.test(line) ? line.trim() : undefined))

t.test('no variable of a test reaches the product', (t) => {
  const found = inLines(sources, (line) => /\bSVC_TEST\w*/.exec(line)?.[0])
  t.same(found, [])
  t.end()
})

// Mocks of modules have no effect: test/tools/typescript.mjs resolves a module before tap can replace it.
check('left over', inLines(code.filter((p) => p !== 'test/tidy.test.ts'), (line) =>
  /\.only\(|\.mock(Import|All)\(|\bdebugger\b|\b(TODO|FIXME|XXX)\b/.exec(line)?.[0]))

/** The modules that a file imports, statically or dynamically, or names by URL. */
function imports (path: string): string[] {
  const found: string[] = []
  walk(trees.get(path)!, (node) => {
    const names = ts.isImportDeclaration(node) || ts.isExportDeclaration(node)
    const declared = names ? node.moduleSpecifier : undefined
    const made = ts.isNewExpression(node) && node.expression.getText() === 'URL'
    const called = ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword
    const from = declared ?? (made || called ? node.arguments?.[0] : undefined)
    if (from !== undefined && ts.isStringLiteral(from) && !from.text.endsWith('/')) found.push(from.text)
  })
  return found
}

/** Repository path of the file to which a relative import resolves. */
const target = (path: string, from: string): string =>
  relative(root, join(root, dirname(path), from)).replace(/\.js$/, '.ts')
const json = (path: string): unknown => JSON.parse(readFileSync(join(root, path), 'utf8'))
type Packed = Record<'dependencies' | 'optionalDependencies' | 'devDependencies', object>
const packed = json('package.json') as Packed
const dependencies = { ...packed.dependencies, ...packed.optionalDependencies }
const packageOf = (from: string): string => from.split('/').slice(0, from.startsWith('@') ? 2 : 1).join('/')
const inFolder = (folder: string): string[] => sources.filter((path) => path.startsWith(folder))

// Only imports of packages; imports.test.ts checks the imports of files.
check('imports of plugins', inFolder('plugins/').flatMap((path) => imports(path).filter((from) => {
  const fine = from.startsWith('node:') || packageOf(from) in dependencies
  return !from.startsWith('.') && (!fine || /^(fastify|yjs|y-)/.test(from))
}).map((from) => ({ path, what: from }))))

/** Modules of the nodes that the page may import, such as frame parsers and reply types. */
const SHARED = [
  'plugins/capabilities/frames/parser', 'kernel/api/schema', 'kernel/http/event-stream-parser',
  'kernel/state/entries',
  'kernel/cli/bytes', 'kernel/cli/event-words', 'kernel/net/encoding', 'plugins/devices/signing/pair',
  'plugins/devices/signing/protocol',
  'plugins/devices/signing/signer', 'plugins/devices/signing/web', 'plugins/chat/repetition',
  'docs/reference/replies'
].map((path) => `${path}.ts`)
check('imports of the page', pageSources.flatMap((path) => imports(path).filter((from) => {
  if (from.startsWith('.')) return !inBrowser(target(path, from)) && !SHARED.includes(target(path, from))
  return !(packageOf(from) in { ...dependencies, ...packed.devDependencies })
}).map((from) => ({ path, what: from }))))

check('imports of the kernel', inFolder('kernel/').flatMap((path) => imports(path).filter((from) => {
  if (from.startsWith('.')) return target(path, from).startsWith('plugins/')
  if (/^(yjs|y-)/.test(from)) return !/^kernel\/state\/(documents\/|sync\.ts$)/.test(path)
  return !from.startsWith('node:') && !(packageOf(from) in dependencies)
}).map((from) => ({ path, what: from }))))

check('plugins named in the kernel', inSyntax(inFolder('kernel/'), (node) =>
  ts.isStringLiteral(node) && bundled.some((p) => p.manifest.name === node.text) ? node.text : undefined))

/** Exports that open connections, by module; null means all exports. */
const DIALS: Readonly<Record<string, readonly string[] | null>> = {
  'node:http': ['request', 'get', 'Agent', 'globalAgent'],
  'node:https': ['request', 'get', 'Agent', 'globalAgent'],
  'node:net': ['connect', 'createConnection', 'Socket'], 'node:tls': ['connect', 'TLSSocket'],
  'node:http2': null, 'node:dgram': null, 'undici': null
}
const importsOf = (node: ts.Node): [from: string, names: string[] | null] | undefined => {
  if (ts.isImportDeclaration(node) && ts.isStringLiteral(node.moduleSpecifier)) {
    const { importClause: clause, moduleSpecifier: { text: from } } = node
    const named = clause?.namedBindings
    if (clause === undefined || clause.isTypeOnly) return undefined
    if (clause.name !== undefined || named === undefined || !ts.isNamedImports(named)) return [from, null]
    return [from, named.elements.filter((one) => !one.isTypeOnly)
      .map(({ name, propertyName }) => (propertyName ?? name).text)]
  }
  const called = ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword
  const from = called ? node.arguments[0] : undefined
  return from !== undefined && ts.isStringLiteral(from) ? [from.text, null] : undefined
}
check('outgoing connections', inSyntax(sources, (node) => {
  const [from = '', names = null] = importsOf(node) ?? []
  const dials = DIALS[from] ?? DIALS[`node:${from}`]
  const opens = from in DIALS || `node:${from}` in DIALS
  if (opens && (names === null || names.some((name) => dials?.includes(name) ?? true))) {
    return `opens connections by ${from}; those of kernel/net/outgoing.ts check the address`
  }
  if (ts.isCallExpression(node) && node.expression.getText() === 'fetch') return 'fetch'
  const made = ts.isNewExpression(node) ? node.expression.getText() : ''
  const dialler = /^(WebSocket|EventSource|OTLPTraceExporter)$/.test(made)
  if (!dialler || node.getText().includes('outgoingAgent(')) return undefined
  return `new ${made} without outgoingAgent`
}))

check('dead files', (() => {
  const entries = ['cli/main', 'cli/index', 'index', 'testing/index', '../plugins/public']
    .map((name) => join('kernel', `${name}.ts`))
  const reached = new Set<string>()
  const reach = (path: string): void => {
    if (reached.has(path) || !trees.has(path)) return
    reached.add(path)
    for (const from of imports(path)) if (from.startsWith('.')) reach(target(path, from))
  }
  entries.forEach(reach)
  return sources.filter((path) => !/^(test|docs)\//.test(path) && !reached.has(path))
    .map((path) => ({ path, what: 'nothing imports it' }))
})())

check('plugin folders', bundled.flatMap(({ manifest: { name } }) => {
  const folder = `plugins/${name}`
  const tests = code.filter((path) => path.startsWith(`${folder}/test/`) && path.endsWith('.test.ts'))
  return [
    ...existsSync(join(root, folder, 'README.md')) ? [] : [{ path: folder, what: 'no README.md' }],
    ...tests.length > 0 ? [] : [{ path: folder, what: 'no test' }]
  ]
}))

check('words without a test', [kernelManifest as Manifest, ...bundled.map((p) => p.manifest)].flatMap((m) => {
  const folder = m.name === 'kernel' ? 'kernel/' : `plugins/${m.name}/`
  // The kernel declares the events and errors that the tests of these two plugins cover.
  const also = m.name === 'kernel' ? ['plugins/cluster/test/', 'plugins/capabilities/test/'] : []
  const folders = [`${folder}test/`, 'test/', ...also]
  const tests = code.filter((path) => folders.some((one) => path.startsWith(one)))
    .filter((path) => path !== 'test/tidy-allowed.ts')
    .map((path) => text.get(path)!)
  const words = [m.errors, m.conflicts, m.events].flatMap((record) => Object.keys(record ?? {}))
  return words.filter((word) => !tests.some((content) => new RegExp(`\\b${word}\\b`).test(content)))
    .map((word) => ({ path: `${m.name}: ${word}`, what: 'no test names it' }))
}))

check('one copy of yjs', (() => {
  const { packages } = json('package-lock.json') as { packages: object }
  const copies = Object.keys(packages).filter((path) => /(^|\/)node_modules\/yjs$/.test(path))
  return copies.length === 1 ? [] : [{ path: 'package-lock.json', what: copies.join(', ') }]
})())

const pages = [...paths.filter((path) => path.endsWith('.md')), 'README.md', 'CHANGELOG.md']

check('markdown titles', pages.flatMap((path) => {
  const plain = readFileSync(join(root, path), 'utf8').replace(/^```[\s\S]*?^```$/gm, '')
  const titles = plain.split('\n').filter((line) => line.startsWith('# '))
  return plain.startsWith('# ') && titles.length === 1 ? [] : [{ path, what: `${titles.length} titles` }]
}))

check('machine paths', inLines([...code, ...pages].filter((p) => p !== 'test/tidy.test.ts'), (line) =>
  /(?<![\w.])\/(work|root|Users|mnt|home)\/\w|registry\.npm|:4873\b/.exec(line)?.[0]))

t.test('benchmarks import existing modules', async (t) => {
  const asks = /(?:\{ ([^}]*) \} =\s+)?await source\('([^']+)'\)/g
  const asked = code.filter((path) => path.startsWith('test/bench/')).flatMap((path) =>
    [...text.get(path)!.matchAll(asks)].map(([, names = '', from]) => ({ path, names, from: from! })))
  t.ok(asked.length > 10)
  for (const { path, names, from } of asked) {
    const source = text.get(from)
    t.ok(source !== undefined, `${path}: ${from}`)
    const taken = names.split(', ').map((one) => one.split(':')[0]!).filter((one) => one !== '')
    for (const name of taken) {
      t.match(source, new RegExp(`\\b${name}\\b`), `${path}: ${name} of ${from}`)
    }
  }
})
