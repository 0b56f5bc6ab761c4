import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import t from 'tap'
import { schemaChecker } from '../../../kernel/api/validate.js'
import { fake, manualClock, startPlugin } from '../../../kernel/testing/index.js'
import { TokenService, type NodeView } from '../../../kernel/index.js'
import { cli, sendJson, standIn } from '../../../kernel/test/cli-helpers.js'
import { endedTask, runnerWork } from '../../diagnostics/test/kit.js'
import { RunnerWorkService, type EndedTask } from '../../runners/service.js'
import { COUNTS, usageRoute } from '../usage/declarations.js'
import { startUsage } from '../usage/index.js'
import { DAYS_MAX, OTHER, ROWS_MAX, UsageTable, zero } from '../usage/table.js'
import access from '../index.js'

let ids = 0
const task = (more: Partial<EndedTask> = {}): EndedTask =>
  endedTask({ commandId: `c${++ids}`, callerId: 'app_1', modelId: 'test/m', ...more })
const DAY = '2026-11-29'
const nth = (n: number): string => new Date(Date.UTC(2026, 0, 1 + n)).toISOString().slice(0, 10)
const rowsOf = (table: UsageTable): unknown[] => [...table.rows()].map(({ day, caller, model, counts }) =>
  [day, caller, model, counts.requests, counts.failed, counts.prompt_tokens, counts.output_tokens])

t.test('the table counts requests, not tasks', async (t) => {
  const check = (title: string, tasks: EndedTask[], expected: unknown[]): void => {
    const table = new UsageTable()
    for (const one of tasks) table.add(DAY, one)
    t.same(rowsOf(table), expected, title)
  }
  const lost = { status: 'Failed', tokens: null } as const
  const m = [DAY, 'app_1', 'test/m']
  check('two requests', [task(), task({ status: 'Cancelled' })], [[...m, 2, 0, 20, 40]])
  check('failures', [task(lost), task({ ...lost, status: 'TimedOut' })], [[...m, 2, 2, 0, 0]])
  const [x, lostX] = [{ commandId: 'x' }, { ...lost, commandId: 'x' }]
  check('a second attempt', [task(lostX), task(x)], [[...m, 1, 0, 10, 20]])
  check('several prompts', [task(x), task(x)], [[...m, 1, 0, 20, 40]])
  check('another model of a chain', [task(lostX), task({ ...x, modelId: 'test/n' })],
    [[...m, 0, 0, 0, 0], [DAY, 'app_1', 'test/n', 1, 0, 10, 20]])
  check('callers', [task(), task({ callerId: 'local' })],
    [[...m, 1, 0, 10, 20], [DAY, 'local', 'test/m', 1, 0, 10, 20]])
})

t.test('days and rows have limits, and no count is lost by the limit on rows', async (t) => {
  const table = new UsageTable()
  for (let n = 0; n < DAYS_MAX + 8; n++) table.add(nth(n), task())
  const days = [...table.rows()].map(({ day }) => day)
  t.same([days.length, days[0]], [DAYS_MAX, nth(8)])
  table.add('1970-01-01', task())
  t.equal(new Set([...table.rows()].map(({ day }) => day)).size, DAYS_MAX, 'a clock that was set back')

  const full = new UsageTable()
  for (const day of [nth(0), nth(1)]) {
    for (let n = 0; n < ROWS_MAX + 5; n++) full.add(day, task({ callerId: `a${n}` }))
    full.add(day, task({ callerId: 'a1' }))
  }
  const rows = [...full.rows()]
  t.equal(rows.length, 2 * (ROWS_MAX + 1))
  t.equal(rows.reduce((sum, { counts }) => sum + counts.requests, 0), 2 * (ROWS_MAX + 6))
  t.same(rows.filter(({ caller }) => caller === OTHER).map(({ counts }) => counts.requests), [5, 5])
})

type Peer = () => unknown

/** The usage of a node; `peers` maps names to answers, null for a node that is gone. */
function openUsage (home: string, peers: Record<string, Peer | null> = {}) {
  const clock = manualClock()
  const work = runnerWork()
  const logged: string[] = []
  const ends: (() => unknown)[] = []
  const paths: string[] = []
  const say = (_: object, message: string): void => { logged.push(message) }
  let tick = (): void => {}
  const view = (name: string, self: boolean, live = true): NodeView =>
    ({ nodeId: `id-${name}`, installId: name, name, self, live, master: self, apiUrl: null })
  const handler = startUsage({
    clock, node: { home, name: 'me' } as never, log: { warn: say } as never,
    deps: {
      work, tokens: { list: () => [{ id: 'app_1', label: 'phone' }] as never },
      cluster: {
        nodes: () => [view('me', true), ...Object.entries(peers).map(([name, peer]) =>
          view(name, false, peer !== null))],
        request: async (name, { path }) => {
          paths.push(path)
          const body = Readable.from([Buffer.from(JSON.stringify(peers[name]!()))])
          return { status: 200, headers: {}, body }
        }
      }
    },
    effect: (_, end) => { ends.push(end) }, every: (_, __, fn) => { tick = fn },
    checker: schemaChecker as never
  }, new UsageTable(), (id) => id)
  const operator = { id: 'operator', may: ['operator'] }
  const ask = async (query: object = {}, { id, may } = operator, member: string | null = null) =>
    await handler({
      query, caller: { id, mode: 'direct', authorities: new Set(may) }, member,
      signal: new AbortController().signal
    } as never)
  const close = async (): Promise<void> => { for (const end of ends.reverse()) await end() }
  return { ask, work, clock, logged, paths, close, tick: () => { tick() } }
}

function homeOf (t: { teardown (fn: () => void): void }): string {
  const home = mkdtempSync(join(tmpdir(), 'svc-usage-'))
  mkdirSync(join(home, 'state'))
  t.teardown(() => { rmSync(home, { recursive: true, force: true }) })
  return home
}

async function settled (holds: () => boolean): Promise<void> {
  for (let n = 0; !holds(); n++) {
    if (n > 2000) throw new Error('it never held')
    await new Promise((resolve) => { setTimeout(resolve, 5) })
  }
}

t.test('only requests that entered here count, and the file keeps them', async (t) => {
  const home = homeOf(t)
  const file = join(home, 'state', 'usage.json')
  const one = openUsage(home)
  one.work.ended(task({ heardSeconds: 1.5, audioSeconds: 0.25 }))
  one.work.ended(task({ entered: false }))
  one.tick()
  await settled(() => existsSync(file))
  one.work.ended(task({ callerId: 'local' }))
  await one.close()
  one.work.ended(task())
  const two = openUsage(home)
  const { rows, total } = await two.ask()
  t.match(rows, [
    { key: 'app_1', label: 'phone', requests: 1, sound_in_seconds: 1.5, sound_out_seconds: 0.25 },
    { key: 'local', label: null, requests: 1 }
  ])
  t.match(total, { requests: 2, prompt_tokens: 20, cached_tokens: 8, output_tokens: 40 })
  t.equal(schemaChecker(usageRoute.reply)(await two.ask()), null)
  t.notMatch(readFileSync(file, 'utf8'), /phone/)
})

t.test('a file that cannot be read is set aside', async (t) => {
  const row = [DAY, 'app_1', 'test/m', 1]
  for (const text of ['', '{', '[]', '{"format":99}', '{"format":1,"rows":7}', '{"format":1,"rows":[1]}',
    JSON.stringify({ format: 1, rows: [row, [...row, -1]] }),
    JSON.stringify({ format: 1, rows: [['x', ...row.slice(1)]] })]) {
    const home = homeOf(t)
    const file = join(home, 'state', 'usage.json')
    writeFileSync(file, text)
    const { ask, logged } = openUsage(home)
    t.match(logged, [/usage\.json\.damaged/], text)
    t.same([existsSync(file), readFileSync(`${file}.damaged`, 'utf8')], [false, text])
    t.equal((await ask()).rows.length, 0)
  }
})

t.test('a disk that cannot be written is logged once, and counting goes on', async (t) => {
  const home = homeOf(t)
  const state = join(home, 'state')
  const { ask, work, logged, tick } = openUsage(home)
  rmSync(state, { recursive: true })
  for (let n = 1; n <= 3; n++) {
    work.ended(task())
    tick()
    await settled(() => logged.length > 0)
    t.equal((await ask()).total.requests, n)
  }
  t.equal(logged.length, 1)
  mkdirSync(state)
  await settled(() => {
    tick()
    return existsSync(join(state, 'usage.json'))
  })
})

t.test('all nodes are asked; those that do not answer are named', async (t) => {
  const theirs = (key: string) => ({ rows: [{ key, label: null, ...zero(), requests: 4, prompt_tokens: 1 }] })
  const { ask, work, paths } = openUsage(homeOf(t), {
    attic: () => theirs('app_1'), barn: null, liar: () => ({ rows: [{ key: 'x' }] }), odd: () => 'x'
  })
  work.ended(task())
  const usage = await ask({ by: 'key', until: '2099-01-01', since: '1970-01-01' })
  t.match(usage.rows, [{ key: 'app_1', label: 'phone', requests: 5, prompt_tokens: 11 }])
  t.equal(usage.total.requests, 5)
  t.same(usage.not_asked.map(({ name }) => name), ['barn', 'liar', 'odd'])
  t.equal(paths[0], '/v1/usage?by=key&since=1970-01-01&until=2099-01-01')
  t.equal((await ask({}, undefined, 'attic')).not_asked.length, 0, 'another node that asks gets this node\'s')
  t.equal((await ask({}, { id: 'local', may: [] })).not_asked.length, 0, 'local is this machine')
})

t.test('each group, and each caller sees its own rows', async (t) => {
  const { ask, work, clock } = openUsage(homeOf(t))
  work.ended(task())
  work.ended(task({ callerId: 'app_2', modelId: 'test/n', tokens: null }))
  await clock.advance(86_400_000)
  work.ended(task())
  const day = (ms = 0): string => new Date(clock.now() - ms).toISOString().slice(0, 10)
  const check = async (
    query: object, expected: unknown[], may = ['operator'], id = 'operator'
  ): Promise<void> => {
    const { rows } = await ask(query, { id, may })
    t.same(rows.map(({ key, requests }) => [key, requests]), expected, JSON.stringify(query))
  }
  await check({}, [['app_1', 2], ['app_2', 1]])
  await check({ by: 'model' }, [['test/m', 2], ['test/n', 1]])
  await check({ by: 'day' }, [[day(86_400_000), 2], [day(), 1]])
  await check({ by: 'node' }, [['me', 3]])
  await check({ since: day() }, [['app_1', 1]])
  await check({ until: day(86_400_000) }, [['app_1', 1], ['app_2', 1]])
  await check({}, [['app_2', 1]], ['read'], 'app_2')
  await check({ by: 'model' }, [['test/m', 2]], ['read', 'invoke'], 'app_1')
  await check({}, [], ['read'], 'app_3')
  await check({}, [], [], 'anonymous')
})

t.test('the route refuses what is wrong by name, and needs "read"', async (t) => {
  const tokens = fake(TokenService, { list: () => [], revoked: () => [] })
  const fakes = [fake(RunnerWorkService, runnerWork()), tokens]
  const rig = await startPlugin(t, access, { fakes })
  const check = async (query: string, message: RegExp): Promise<void> => {
    const answer = await rig.inject({ url: `/v1/usage?${query}` })
    t.equal(answer.statusCode, 400, query)
    t.match(answer.json().error, { reason: 'invalid_request', message })
  }
  await check('by=color', /by/)
  await check('since=2026-02-31', /since/)
  await check('since=yesterday', /since/)
  await check('until=2026-13-01', /until/)
  await check('until=2026-01-01T00:00', /until/)
  await check('since=2026-01-02&until=2026-01-01', /since/)
  await check('more=1', /more/)
  t.match((await rig.inject({ url: '/v1/usage' })).json(), { by: 'key', rows: [], total: zero() })
  const blind = await startPlugin(t, access, { fakes, allow: ['invoke'] })
  t.equal((await blind.inject({ url: '/v1/usage' })).statusCode, 401)
})

t.test('svc usage', async (t) => {
  const counts = { ...zero(), requests: 3, prompt_tokens: 40, sound_in_seconds: 1.25 }
  const answer = {
    by: 'key', since: '2026-11-23', until: DAY, total: counts,
    not_asked: [{ name: 'barn', message: 'was late' }],
    rows: [{ key: 'app_1', label: 'phone, "old"', ...counts }]
  }
  const node = await standIn(t, { 'GET /v1/usage': (response) => { sendJson(response, answer) } })
  const run = async (...words: string[]): ReturnType<typeof cli> =>
    await cli(['usage', ...words, '--url', node.url], { plugins: [access] })
  const shown = await run()
  t.match(shown.out, /KEY +REQUESTS +FAILED .*\nphone, "old" +3 +0 +40 .* 1\.3 s +0\.0 s\ntotal +3 /)
  t.match(shown.err, /barn was late/)
  t.equal((await run('--csv')).out, `key,label,${COUNTS.join(',')}\n` +
  'app_1,"phone, ""old""",3,0,40,0,0,1.25,0\ntotal,,3,0,40,0,0,1.25,0\n')
  t.same(JSON.parse((await run('--json')).out), answer)
  await run('--by', 'model', '--since', '2026-01-31')
  t.match(node.asked.at(-1), { url: '/v1/usage?by=model&since=2026-01-31' })
  for (const since of ['soon', '7', '2026-02-99']) {
    t.match(await run('--since', since), { status: 2, err: /--since/ }, since)
  }
})
