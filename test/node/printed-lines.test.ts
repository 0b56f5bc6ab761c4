import t, { type Test } from 'tap'
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { cli, folder, root, run, svc, until, type Child } from './kit.js'

/** Starts a node as users do, in a home whose path needs shell quoting. */
async function up (t: Test, home: string, words: string[], env: Record<string, string> = {}): Promise<Child> {
  const child = run(process.execPath, [cli, 'up', '--home', home, ...words], { cwd: root, env })
  t.teardown(async () => { child.process.kill('SIGKILL'); await child.ended })
  await until(`it is up: ${words.join(' ')}`, () => {
    if (child.over()) throw new Error(child.stderr())
    return existsSync(join(home, 'run/node.json')) && /svc is up/.test(child.stdout() + child.stderr())
  })
  return child
}

/** Runs a printed command line in the repository root, with its output file `name` replaced by `into`. */
const pasted = async (line: string, name: string, into: string): Promise<string> => {
  const child = run('sh', ['-c', line.replace(name, `'${into}'`)], { cwd: root })
  const status = await child.ended
  return status === 0 ? '' : `${line}: ${status}\n${child.stderr()}`
}

t.test('the lines that svc up prints work, with TLS and in a home that needs quotes', async (t) => {
  const top = folder(t)
  const home = join(top, 'my hömé \'x\'')
  const child = await up(t, home, ['--port', '0'],
    { SVC_API_TLS: 'self', SVC_CLUSTER_PORT: '0', SVC_LOGGING_ENABLED: 'false' })
  t.equal((await svc(['status', '--wait', '--home', home])).status, 0)
  const lines = child.stdout().split('\n')
  const speaks = lines.filter((line) => /\.\/svc say|curl/.test(line))
  t.equal(speaks.length, 2)
  const text = speaks.map((line) => lines.slice(lines.indexOf(line)).join('\n'))
  for (const [i, line] of text.entries()) {
    const whole = /^(?:.*\\\n)*.*/.exec(line)![0]
    const file = join(top, `${i}.mp3`)
    t.equal(await pasted(whole, 'hello.mp3', file), '')
    t.ok(existsSync(file) && statSync(file).size > 1000, whole)
  }
})

t.test('the name persists, and a joining node prints it; with JSON logs stdout has only logs', async (t) => {
  const first = join(folder(t), 'one')
  const env = { SVC_PLUGINS_RUNNERS_ENABLED: 'false', SVC_CLUSTER_DISCOVERY: 'false' }
  let node = await up(t, first, ['--port', '0', '--name', 'attic'], env)
  node.process.kill('SIGTERM')
  await node.ended
  t.equal(readFileSync(join(first, 'svc.yaml'), 'utf8'), 'name: attic\n')
  writeFileSync(join(first, 'svc.yaml'), '# mine\nlogging:\n  enabled: true\nname: attic # kept\n')
  node = await up(t, first, ['--port', '0'], env)
  const { stdout } = await svc(['nodes', '--home', first, '--json'])
  t.match(JSON.parse(stdout), { nodes: [{ name: 'attic' }] })
  const said = node.stdout().trim().split('\n')
  t.ok(said.length > 0 && said.every((line) => typeof JSON.parse(line) === 'object'), 'JSON lines')
  t.match(node.stderr(), /svc is up at http/)
  const made = await svc(['join-token', '--local', '--home', first], { cwd: root })
  const line = /\n {2}(SVC_JOIN=.*)/.exec(made.stderr)![1]!
  t.match(line, ` --home ${first}-2 `)
  const other = run('sh', ['-c', `exec env ${line}`], { cwd: root, env })
  t.teardown(async () => { other.process.kill('SIGKILL'); await other.ended })
  await until('it has joined', () => /svc is up/.test(other.stdout()) || other.over())
  t.match(other.stderr(), /^joined the cluster; /m)
  const both = JSON.parse((await svc(['nodes', '--home', first, '--json'])).stdout) as
    { nodes: { name: string }[] }
  t.same(both.nodes.map(({ name }) => name).sort(), ['attic', `${hostname()}-2`].sort())
})
