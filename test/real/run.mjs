// npm run test:real [-- PART ...]: runs svc against real weights, programs and clients, which it downloads
// into $XDG_CACHE_HOME/svc-test. The parts run one after the other, without names all of them but `record`;
// words after the name of a single part are passed to that part. Prints a table, and updates .tap/real.json.
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../..', import.meta.url))
const report = join(root, '.tap/real.json')

const tests = (...args) => [process.execPath, 'test/run.mjs', '--jobs', '1', ...args]
const install = (folder) => ['npm', '--prefix', folder, 'install', '--no-audit', '--no-fund']

/** Of each part, where its tests are, and its commands: installations, then the tests. */
const PARTS = {
  weights: ['test/real/weights', [
    install('test/models'), [process.execPath, 'test/llama/build.mjs'],
    tests('--timeout', '1800', 'test/real/weights.test.ts')
  ]],
  speech: ['test/real/speech', [tests('--timeout', '1800', 'test/real/speech.test.ts')]],
  stt: ['test/real/stt', [tests('--timeout', '1800', 'test/real/stt.test.ts')]],
  realtime: ['test/real/realtime', [
    install('test/clients'), tests('--timeout', '900', 'test/real/realtime.test.ts')
  ]],
  recorded: ['test/real/recorded', [tests('--timeout', '900', 'test/real/recorded.test.ts')]],
  llama: ['test/llama', [[process.execPath, 'test/llama/run.mjs']]],
  onnx: ['test/models', [install('test/models'), [process.execPath, 'test/models/run.mjs']]],
  clients: ['test/clients', [install('test/clients'), tests('--timeout', '900', 'test/clients')]],
  suites: ['test/real/suites', [
    // None of the programs needs its install script.
    [...install('test/real/suites'), '--ignore-scripts'], [process.execPath, 'test/llama/build.mjs'],
    tests('--timeout', '1800', 'test/real/suites')
  ]],
  python: ['test/real/python-clients', [tests('--timeout', '1800', 'test/real/python-clients')]],
  published: ['test/real/published', [
    tests('--timeout', '900', 'test/real/published.test.ts')
  ]],
  faults: ['test/real/faults', [
    install('test/clients'), [process.execPath, 'test/llama/build.mjs'],
    tests('--timeout', '1800', 'test/real/faults')
  ]],
  webui: ['test/real/webui', [tests('--timeout', '1800', 'test/real/webui')]],
  record: ['test/real', [
    [process.execPath, 'test/llama/run.mjs', '--record'],
    tests('--timeout', '900', 'test/real/recorded.test.ts'),
    tests('--timeout', '1800', 'test/real/webui')
  ]]
}
/** Writes the recordings that the short tests replay, so it runs only if it is named. */
const RECORD = 'record'

const isOnline = () => spawnSync('npm', ['ping'], { stdio: 'ignore', timeout: 60_000 }).status === 0

/** Runs the commands of a part until one fails; returns its result. `words` are passed to the last one. */
function resultOf (commands, words) {
  for (const [i, [program, ...args]] of commands.entries()) {
    const isLast = i === commands.length - 1
    const all = isLast ? [...args, ...words] : args
    const { status } = spawnSync(program, all, { cwd: root, stdio: 'inherit' })
    if (status === 0) continue
    if (isLast || isOnline()) return 'failed'
    console.log('skipped: the npm registry cannot be reached')
    return 'skipped'
  }
  return 'passed'
}

/** The TAP output of a part's test files since a time. */
function outputs (part, sinceMs) {
  const folder = join(root, '.tap/test-results')
  mkdirSync(folder, { recursive: true })
  return readdirSync(folder, { recursive: true })
    .filter((name) => name.startsWith(part) && name.endsWith('.tap'))
    .map((name) => join(folder, name)).filter((path) => statSync(path).mtimeMs >= sinceMs)
    .map((path) => readFileSync(path, 'utf8'))
}

/** Runs a part. It counts as skipped if all its tests were. */
function run ([folder, commands], words) {
  const at = Date.now()
  const result = resultOf(commands, words)
  const seconds = Math.round((Date.now() - at) / 1000)
  const taps = outputs(folder, at)
  const skipped = taps.flatMap((tap) => tap.match(/^ *ok .* # SKIP.*/gm) ?? [])
    .map((line) => line.trim().replace(/^ok \d+ - /, ''))
  const isEmpty = skipped.length > 0 && !taps.some((tap) => /^ok (?!.* # SKIP)/m.test(tap))
  return { at: new Date(at).toISOString(), seconds,
    result: result === 'passed' && isEmpty ? 'skipped' : result, skipped }
}

const given = process.argv.slice(2)
const end = given.findIndex((word) => !Object.hasOwn(PARTS, word))
const names = end === -1 ? given : given.slice(0, end)
const words = end === -1 ? [] : given.slice(end)
if (words.length > 0 && names.length !== 1) {
  console.error(`no part ${words[0]}: the parts are ${Object.keys(PARTS).join(', ')}`)
  process.exit(2)
}

const ran = {}
if (names.includes(RECORD)) process.env['SVC_TEST_RECORD'] = '1'
for (const name of names.length > 0 ? names : Object.keys(PARTS).filter((name) => name !== RECORD)) {
  console.log(`\n== ${name}`)
  ran[name] = run(PARTS[name], words)
}

console.log('\n| Part | Seconds | Result |\n|---|---|---|')
for (const [name, { seconds, result, skipped }] of Object.entries(ran)) {
  const less = skipped.length > 0 ? `, ${skipped.length} tests skipped` : ''
  console.log(`| ${name} | ${seconds} | ${result}${less} |`)
}
const earlier = existsSync(report) ? JSON.parse(readFileSync(report, 'utf8')).parts : {}
const machine = { node: process.version, platform: `${process.platform}-${process.arch}`,
  cores: availableParallelism() }
mkdirSync(join(root, '.tap'), { recursive: true })
writeFileSync(report, `${JSON.stringify({ machine, parts: { ...earlier, ...ran } }, null, 2)}\n`)
if (Object.values(ran).some(({ result }) => result === 'failed')) process.exitCode = 1
