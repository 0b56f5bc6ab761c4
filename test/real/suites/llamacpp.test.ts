/**
 * llama.cpp's own server tests, unmodified, against a node. llamacpp.json lists those that do not pass, each
 * with the reason and the words of its failure. `npm run test:real -- suites`.
 */
import { existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { cli, folder, root, run, startNode } from '../../node/kit.js'
import { pythonEnvironment } from '../python.mjs'
import { pullAndPlace, serverProgram } from '../weights-kit.js'
import { folderOf, withoutWeights } from '../weights.js'

/** Tests that fail for one reason. A name without parameters covers all parameters; each failure has `at`. */
interface Listed { why: string, at: string, tests: string[] }
/** `notRun` has files, and tests that would pass without meaning it. */
interface List { notRun: Record<string, string>, fails: Listed[] }
interface Result { test: string, outcome: 'passed' | 'failed' | 'skipped', at: string }

const here = (name: string): string => fileURLToPath(new URL(name, import.meta.url))
const list = JSON.parse(readFileSync(here('llamacpp.json'), 'utf8')) as List

const SHARED = process.env['SVC_TEST_SHARED'] ?? here('../../../../shared')
/** The model that the tests expect. */
const stories = join(SHARED, 'data/stories260K/s260k.gguf')
const program = serverProgram()
const python = pythonEnvironment('llamacpp-tests', here('llamacpp.txt'))
const skip = 'missing' in program
  ? program.missing
  : python.missing ??
    (existsSync(stories) ? withoutWeights(['smollm2', 'minilm']) : `needs ${stories}, which is absent`)
const server = 'path' in program ? program.path : ''

t.test('the server tests of llama.cpp', { skip, timeout: 1_200_000 }, async (t) => {
  const node = await startNode(t, {
    config: {
      cluster: { discovery: false },
      access: { local: [] },
      plugins: { placement: { autoplace: [] }, runners: { threads: 1 } },
      model_store: { hub: { enabled: false } }
    },
    env: { SVC_LLAMA_SERVER_BIN: server }
  })
  await pullAndPlace(t, node, folderOf('minilm'), 'test/minilm')
  await pullAndPlace(t, node, stories, 'test/stories', ['--ctx', '256', '--slots', '2'])
  const tests = join(dirname(server), '../../tools/server/tests')
  const results = join(root, '.tap/real/llamacpp.jsonl')
  mkdirSync(join(root, '.tap/real'), { recursive: true })
  rmSync(results, { force: true })
  const notRun = Object.keys(list.notRun).map((name) =>
    `--${name.includes('::') ? 'deselect' : 'ignore'}=${name}`)
  const child = run(join(python.folder ?? '', 'python'), [
    '-m', 'pytest', '-p', 'llamacpp_svc', '-p', 'no:cacheprovider', '-q', '-m', 'not slow', ...notRun
  ], {
    cwd: tests,
    env: {
      PYTHONPATH: `${here('.')}:${tests}`, PYTHONDONTWRITEBYTECODE: '1', SVC_HOME: node.home,
      SUITE_URL: node.url, SUITE_TOKEN: node.token, SUITE_SVC: JSON.stringify([process.execPath, cli]),
      SUITE_TMP: folder(t), SUITE_RESULTS: results
    }
  })
  t.teardown(() => { child.process.kill('SIGKILL') })
  const status = await child.ended
  t.ok(status === 0 || status === 1, `pytest ends: ${child.stdout().slice(-2000)}${child.stderr()}`)
  const ran = readFileSync(results, 'utf8').trim().split('\n').map((line) => JSON.parse(line) as Result)
  const listed = ({ test }: Result): Listed | undefined =>
    list.fails.find(({ tests }) => tests.includes(test) || tests.includes(test.replace(/\[.*/s, '')))
  for (const result of ran) {
    const { test, outcome, at } = result
    const one = listed(result)
    const wanted = one === undefined ? 'passed' : 'failed'
    const isSo = outcome === 'skipped' || (outcome === wanted && (one === undefined || at.includes(one.at)))
    t.ok(isSo, `${test} ${outcome}${one === undefined ? '' : `, listed with "${one.at}"`}: ${at}`)
  }
  const names = new Set(ran.flatMap(({ test }) => [test, test.replace(/\[.*/s, '')]))
  const gone = list.fails.flatMap(({ tests }) => tests).filter((test) => !names.has(test))
  t.same(gone, [], 'tests of the list that are gone')
  const passed = ran.filter(({ outcome }) => outcome === 'passed').length
  t.comment(`${passed} of ${ran.length} passed`)
})
