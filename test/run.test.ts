import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'

const root = fileURLToPath(new URL('..', import.meta.url))

/** Runs Node in the repository; returns its status and output. */
function node (args: readonly string[], nodeOptions = ''): { status: number | null, out: string } {
  const env = { ...process.env, NODE_OPTIONS: nodeOptions }
  const { status, stdout } = spawnSync(process.execPath, args, { cwd: root, env, encoding: 'utf8' })
  return { status, out: stdout }
}

t.test('a file that cannot be loaded fails, and the others of its process run', (t) => {
  const good = "import t from 'tap'\nt.test('one', (t) => { t.pass(); t.end() })\n"
  const folder = t.testdir({ 'a.mjs': good, 'b.mjs': `${good}throw new Error('not today')\n`, 'c.mjs': good })
  const files = ['a', 'b', 'c'].map((name) => join(folder, `${name}.mjs`))
  const { status, out } = node(['test/tools/together.mjs', ...files])
  t.equal(status, 1)
  const texts = out.split(/^# end of .*$/m)
  t.match(texts[0], /^ok 1 - one/m)
  t.match(texts[1], /^not ok .*b\.mjs cannot be loaded(.*\n)*.*not today/m)
  t.match(texts[2], /^ok .* - one/m)
  t.equal(texts.length, 4)
  t.end()
})

t.test('without sqlite3, tests that need it are skipped and the others run', (t) => {
  const hooks = 'export async function resolve (name, context, next) { ' +
    'if (name === "sqlite3") throw new Error("no sqlite3 here"); return await next(name, context) }'
  const loader = `import { register } from 'node:module'; register(${JSON.stringify(moduleOf(hooks))})`
  const { status, out } = node(['test/run.mjs', 'plugins/event-log'], `--import=${moduleOf(loader)}`)
  t.equal(status, 0, out.match(/^not ok .*$/gm)?.join() ?? 'nothing failed')
  t.match(out, /^ok .*store-faults\.test\.ts$/m)
  t.end()
})

/** A data: URL of a module with this source. */
function moduleOf (text: string): string { return `data:text/javascript,${encodeURIComponent(text)}` }
