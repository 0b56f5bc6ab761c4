// Finds regular expressions that hostile input can make slow:  npm run lint
// recheck judges the literal expressions of the product and the patterns of JSON Schemas. That takes minutes,
// so results are cached in .tap/redos.json. Exceptions: redos-allowed.mjs.
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import { runInNewContext } from 'node:vm'
import { isMainThread, parentPort, Worker } from 'node:worker_threads'
import { availableParallelism } from 'node:os'
import ts from 'typescript'

const require = createRequire(import.meta.url)
const root = fileURLToPath(new URL('../..', import.meta.url))
const KEPT = `${root}.tap/redos.json`
/** Time limit per expression in ms; the fixed seed makes the results reproducible. */
const OPTIONS = { timeout: 300_000, randomSeed: 1 }
/** A guessed problem counts if recheck's attack text takes this many ms; most real ones take seconds. */
const SLOW_MS = 500

export function expressionsIn (path, text) {
  const source = ts.createSourceFile(path, text, ts.ScriptTarget.ESNext, true)
  const found = []
  const textOf = (node) => {
    if (node === undefined || ts.isStringLiteralLike(node)) return node?.text
    const [left, right] = ts.isBinaryExpression(node) ? [textOf(node.left), textOf(node.right)] : []
    return left === undefined || right === undefined ? undefined : left + right
  }
  const add = (node, pattern, flags) => {
    if (pattern === undefined) return
    found.push({ pattern, flags, line: source.getLineAndCharacterOfPosition(node.getStart()).line + 1 })
  }
  const visit = (node) => {
    if (ts.isRegularExpressionLiteral(node)) {
      const end = node.text.lastIndexOf('/')
      add(node, node.text.slice(1, end), node.text.slice(end + 1))
    } else if (isCall(node) && node.expression.getText() === 'RegExp') {
      add(node, textOf(node.arguments?.[0]), textOf(node.arguments?.[1]) ?? '')
    } else if (ts.isPropertyAssignment(node) && node.name.getText() === 'pattern') {
      // Ajv compiles schema patterns with the flag `u`.
      add(node, textOf(node.initializer), 'u')
    }
    ts.forEachChild(node, visit)
  }
  visit(source)
  return found
}

const isCall = (node) => ts.isNewExpression(node) || ts.isCallExpression(node)

/** `linear`, or a description of the problem. */
export function judge ({ pattern, flags }) {
  const { checkSync } = require('recheck/lib/browser.js')
  const { status, complexity, attack, error, checker } = checkSync(pattern, flags, OPTIONS)
  if (status === 'unknown') return `could not be judged (${error?.kind})`
  if (status === 'safe') return 'linear'
  // Without an exact result recheck guesses by counting steps, and sometimes wrongly on a busy machine; its
  // attack text shows whether the guess is right.
  if (checker === 'fuzz' && !isSlow(new RegExp(pattern, flags), attack.string)) return 'linear'
  return `${complexity.type} in the length of ${attack.pattern}`
}

function isSlow (expression, text) {
  try {
    runInNewContext('expression.test(text)', { expression, text }, { timeout: SLOW_MS })
    return false
  } catch { return true }
}

/** Judges expressions in parallel, on one thread per processor; returns the results by expression text. */
async function judgeAll (expressions) {
  const judged = {}
  const next = expressions.values()
  const threads = Math.min(availableParallelism(), expressions.length)
  await Promise.all(Array.from({ length: threads }, () => new Promise((resolve, reject) => {
    const worker = new Worker(new URL(import.meta.url))
    const send = () => {
      const { value, done } = next.next()
      if (done) resolve(worker.terminate())
      else worker.postMessage(value)
    }
    worker.on('error', reject).on('message', ({ key, what }) => {
      judged[key] = what
      send()
    })
    send()
  })))
  return judged
}

const keyOf = ({ pattern, flags }) => `/${pattern}/${flags}`

/** The sources whose expressions may process untrusted input: the product without its build tools. */
const sources = () => ['kernel', 'plugins'].flatMap((folder) =>
  readdirSync(root + folder, { recursive: true }).map((name) => `${folder}/${name}`))
  .filter((name) => /\.(tsx?|mjs)$/.test(name) && !/\/(test|testing|build|node_modules)\//.test(name))

async function main () {
  const { allowed } = await import('./redos-allowed.mjs')
  const found = sources().flatMap((path) =>
    expressionsIn(path, readFileSync(root + path, 'utf8')).map((one) => ({ path, key: keyOf(one), ...one })))
  let kept = {}
  try { kept = JSON.parse(readFileSync(KEPT, 'utf8')) } catch { /* The first run. */ }
  const unjudged = new Map(found.filter(({ key }) => kept[key] === undefined).map((one) => [one.key, one]))
  const judged = { ...kept, ...await judgeAll([...unjudged.values()]) }
  mkdirSync(`${root}.tap`, { recursive: true })
  writeFileSync(KEPT, JSON.stringify(Object.fromEntries(found.map(({ key }) => [key, judged[key]])), null, 1))
  const used = new Set()
  const excuse = ({ path, key }) =>
    allowed.find(({ expression, under }) => expression === key || path.startsWith(under))
  for (const one of found.filter(({ key }) => judged[key] !== 'linear')) {
    const excused = judged[one.key].startsWith('exponential') ? undefined : excuse(one)
    used.add(excused)
    if (excused === undefined) fail(`${one.path}:${one.line}  ${one.key} is ${judged[one.key]}`)
  }
  for (const one of allowed.filter((one) => !used.has(one))) {
    fail(`redos-allowed.mjs: ${one.expression ?? one.under} needs no exception`)
  }
}

function fail (what) {
  console.error(what)
  process.exitCode = 1
}

if (!isMainThread) {
  parentPort.on('message', (one) => { parentPort.postMessage({ key: keyOf(one), what: judge(one) }) })
} else if (process.argv[1] === fileURLToPath(import.meta.url)) await main()
