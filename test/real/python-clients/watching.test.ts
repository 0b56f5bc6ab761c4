/**
 * Prometheus scrapes a node and gets each name that the dashboard of docs/grafana uses; OpenTelemetry's own
 * protobuf classes decode its traces.
 */
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { ask, type At } from '../../node/http.js'
import { folder, root, run, startNode, svc, until, type Child } from '../../node/kit.js'
import { freePort } from '../recorder.js'
import { environment, quiet } from './kit.js'

const PROMETHEUS = 'prometheus=2.42.0+ds-5+deb12u1'
const GUIDE = 'svc/guide'
/** Names of the library prom-client, which dashboards of others use. */
const KEPT = /^nodejs_active_(handles|requests|resources)_total non-counter metrics should not have/
/** Only nodes with other members have these, as their help texts say. */
const ALONE = ['svc_telemetry_last_publish_age_seconds']

/** Folder of Prometheus's programs, from Debian's package, or why it is missing. */
function prometheus (): { programs?: string, missing?: string } {
  const cache = join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'svc-test')
  const home = join(cache, PROMETHEUS)
  const programs = join(home, 'usr/bin')
  if (existsSync(programs)) return { programs }
  const part = `${home}.part`
  rmSync(part, { recursive: true, force: true })
  mkdirSync(part, { recursive: true })
  const downloaded = spawnSync('apt-get', ['download', PROMETHEUS], { cwd: part, encoding: 'utf8' })
  const file = readdirSync(part).find((name) => name.endsWith('.deb'))
  if (file === undefined) return { missing: `apt-get download ${PROMETHEUS}: ${downloaded.stderr ?? ''}` }
  const unpacked = spawnSync('dpkg', ['-x', file, '.'], { cwd: part, encoding: 'utf8' })
  if (unpacked.status !== 0) return { missing: `dpkg -x: ${unpacked.stderr}` }
  renameSync(part, home)
  return { programs }
}

const { programs = '', missing: withoutPrometheus = false } = prometheus()

async function startPrometheus (t: Test, node: At): Promise<{ at: At, child: Child }> {
  const [home, port] = [folder(t), await freePort()]
  const config = join(home, 'prometheus.yml')
  writeFileSync(config, JSON.stringify({
    global: { scrape_interval: '1s', scrape_timeout: '1s' },
    scrape_configs: [{ job_name: 'svc', static_configs: [{ targets: [new URL(node.url).host] }] }]
  }))
  const child = run(join(programs, 'prometheus'), ['--config.file', config, '--storage.tsdb.path',
    join(home, 'data'), '--web.listen-address', `127.0.0.1:${port}`])
  t.teardown(async () => {
    child.process.kill('SIGKILL')
    await child.ended
  })
  return { at: { url: `http://127.0.0.1:${port}` }, child }
}

const dataOf = async (at: At, path: string): Promise<unknown> =>
  ((await ask(at, path).catch(() => null))?.json as { data?: unknown } | undefined)?.data

t.test('Prometheus', { skip: withoutPrometheus, timeout: 300_000 }, async (t) => {
  const node = await startNode(t)
  const chat = { model: GUIDE, messages: [{ role: 'user', content: 'How do I stop a node?' }] }
  t.equal((await ask(node, '/v1/chat/completions', { body: chat })).status, 200)
  const { at, child } = await startPrometheus(t, node)
  const scraped = await until('two scrapes', async () => {
    const data = await dataOf(at, '/api/v1/query?query=count_over_time(up[1m])') as
      { result: { value: [number, string] }[] } | undefined
    return Number(data?.result[0]?.value[1]) >= 2
  }, { everyMs: 250 })
  t.ok(scraped)
  const { activeTargets } = await dataOf(at, '/api/v1/targets') as
    { activeTargets: { health: string, lastError: string }[] }
  t.match(activeTargets, [{ health: 'up', lastError: '' }])
  const up = await dataOf(at, '/api/v1/query?query=min_over_time(up[1m])') as
    { result: { value: [number, string] }[] }
  t.equal(up.result[0]?.value[1], '1', 'each scrape succeeded')
  t.notMatch(child.stderr(), /level=(warn|error)/)

  const names = new Set(await dataOf(at, '/api/v1/label/__name__/values') as string[])
  const dashboard = readFileSync(join(root, 'docs/grafana/svc.json'), 'utf8')
  const used = new Set(dashboard.match(/\b(svc|process|nodejs)_[a-z0-9_]+\b/g))
  t.ok(used.size > 40, 'the dashboard uses names')
  t.same([...used].filter((name) => !names.has(name) && !ALONE.includes(name)), [], 'all are there')

  const { text } = await ask(node, '/metrics')
  const promtool = join(programs, 'promtool')
  const linted = spawnSync(promtool, ['check', 'metrics'], { input: text, encoding: 'utf8' })
  const said = `${linted.stdout}${linted.stderr}`.split('\n').filter((line) => line !== '')
  t.same(said.filter((line) => !KEPT.test(line)), [], 'promtool has no other remark')
})

interface Span { name: string, trace: string, span: string, parent: string, kind: string, status: string,
  nanoseconds: number, startSeconds: number, service: object, attributes: Record<string, unknown> }
interface Received { path: string, header: string | null, error?: string, spans?: Span[] }

const programsOf = environment('litellm')

t.test('OTLP', { skip: programsOf.missing ?? false, timeout: 300_000 }, async (t) => {
  const script = fileURLToPath(new URL('scripts/receive_otlp.py', import.meta.url))
  const receiver = run(join(programsOf.folder ?? '', 'python'), ['-P', script], { env: quiet(t) })
  t.teardown(async () => {
    receiver.process.kill('SIGKILL')
    await receiver.ended
  })
  const lines = (): string[] => receiver.stdout().split('\n').slice(0, -1)
  const port = await until('the receiver', () => lines()[0])
  const received = (): Received[] => lines().slice(1).map((line) => JSON.parse(line) as Received)

  const tracing = { otlp_url: `http://127.0.0.1:${port}`, otlp_headers: { 'x-key': 'a key' } }
  const node = await startNode(t, { config: { tracing } })
  const on = await svc(['traces', 'on'], { env: { SVC_HOME: node.home } })
  t.equal(on.status, 0, on.stderr)
  const chat = { model: GUIDE, messages: [{ role: 'user', content: 'How do I stop a node?' }] }
  const parent = { trace: '4bf92f3577b34da6a3ce929d0e0e4736', span: '00f067aa0ba902b7' }
  const traceparent = `00-${parent.trace}-${parent.span}-01`
  const before = Math.floor(Date.now() / 1000)
  const answered = await ask(node, '/v1/chat/completions', { body: chat, headers: { traceparent } })
  t.equal(answered.status, 200, answered.text)
  const tooLong = { ...chat, messages: [{ role: 'user', content: 'word '.repeat(5000) }] }
  t.equal((await ask(node, '/v1/chat/completions', { body: tooLong })).status, 400)

  const [first, second] = await until('both traces', () => received().length >= 2 && received())
  for (const one of [first, second]) {
    t.match(one, { path: '/v1/traces', header: 'a key', error: undefined }, 'decodes')
    const { spans = [] } = one ?? {}
    const ids = new Set(spans.map(({ span }) => span))
    t.equal(ids.size, spans.length, 'ids are unique')
    t.equal(new Set(spans.map(({ trace }) => trace)).size, 1)
    const roots = spans.filter(({ parent }) => !ids.has(parent))
    t.equal(roots.length, 1, 'one root')
    t.equal(roots[0]?.kind, 'SPAN_KIND_SERVER')
    t.match(roots[0]?.attributes, { 'gen_ai.request.model': GUIDE, 'gen_ai.operation.name': 'chat' })
    t.match(roots[0]?.service, { 'service.name': 'svc', 'service.instance.id': node.nodeId })
    for (const { nanoseconds, startSeconds } of spans) {
      t.ok(nanoseconds >= 0 && startSeconds >= before - 1 && startSeconds <= before + 300)
    }
  }
  const [one, two] = [first, second].map((each) =>
    each?.spans?.find(({ kind }) => kind === 'SPAN_KIND_SERVER'))
  t.match(one, { ...parent, parent: parent.span, span: String, status: 'STATUS_CODE_UNSET' })
  t.ok(Number(one?.attributes['gen_ai.usage.output_tokens']) > 0)
  t.match(two, { status: 'STATUS_CODE_ERROR', attributes: { 'error.type': 'context_length_exceeded' } })
})
