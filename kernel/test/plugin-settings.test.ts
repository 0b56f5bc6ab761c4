import t from 'tap'
import { definePlugin, type Plugin } from '../index.js'
import { changeReporter } from '../plugins/switch.js'
import { createBus } from '../plugins/events.js'
import { createHealth } from '../plugins/health.js'
import { kernelManifest } from '../plugins/kernel-manifest.js'
import { startPlugin, type Rig } from '../testing/index.js'

const base = { version: '1.0.0', kernel: '^1.0.0', summary: 'A probe.' } as const
const bystander = definePlugin({ ...base, name: 'bystander' }, () => ({}))

/** A plugin that records when it starts and stops, with a route named after the plugin. */
function one (
  name: string, told: string[], more: { requires?: string[], fails?: () => boolean } = {}
): Plugin {
  const { requires = [], fails = () => false } = more
  return definePlugin({
    ...base, name, requires,
    routes: { hear: { method: 'GET', url: `/${name}`, summary: 's', authority: 'read' } }
  }, (ctx) => {
    if (fails()) throw new Error(`no luck with ${name}`)
    told.push(`+${name}`)
    ctx.effect('tell', () => { told.push(`-${name}`) })
    return { routes: { hear: () => ({ name }) } }
  })
}

const put = async (rig: Rig, set: Record<string, unknown>): Promise<object> =>
  (await rig.inject({ method: 'PUT', url: '/config', payload: { revision: '', set } })).json<object>()
const statuses = async (rig: Rig, ...names: string[]): Promise<number[]> =>
  await Promise.all(names.map(async (name) => (await rig.inject({ url: `/${name}` })).statusCode))

t.test('settings switch plugins as `enable` and `disable` do: at once, dependants first', async (t) => {
  const told: string[] = []
  const plugins = [one('shelf', told), one('book', told, { requires: ['shelf'] })]
  const rig = await startPlugin(t, bystander, { plugins })
  const both = (enabled: boolean | null): Record<string, unknown> =>
    ({ 'plugins.shelf.enabled': enabled, 'plugins.book.enabled': enabled })
  for (const on of [true, null]) {
    told.length = 0
    const effect = { in_effect: true, why: null }
    t.match(await put(rig, both(false)), {
      restart_needed: false,
      plugins: [{ name: 'shelf', enabled: false, ...effect }, { name: 'book', enabled: false, ...effect }]
        .toReversed()
    })
    t.same(await statuses(rig, 'shelf', 'book'), [404, 404])
    t.match(await put(rig, both(on)),
      { plugins: [{ name: 'shelf', enabled: true, ...effect }, { name: 'book', enabled: true, ...effect }] })
    t.same(await statuses(rig, 'shelf', 'book'), [200, 200])
    t.same(told, ['-book', '-shelf', '+shelf', '+book'])
  }
  t.match(await put(rig, { 'api.port': 1, 'plugins.book.size': 2 }), { plugins: [] }, 'others switch nothing')
  t.same(rig.events.map(({ kind }) => kind), [1, 2].flatMap(() =>
    ['PluginDisabled', 'PluginDisabled', 'PluginEnabled', 'PluginEnabled']))
})

t.test('what cannot be switched at once is named, and waits for the restart', async (t) => {
  const told: string[] = []
  const plugins = [one('shelf', told), one('book', told, { requires: ['shelf'] }), one('lamp', told)]
  const rig = await startPlugin(t, bystander, { plugins })
  t.match(await put(rig, { 'plugins.shelf.enabled': false, 'plugins.lamp.enabled': false }), {
    plugins: [
      { name: 'lamp', enabled: false, in_effect: true, why: null },
      { name: 'shelf', enabled: false, in_effect: false, why: /A restart is needed: .*also switches "book"/ }
    ]
  })
  t.same(await statuses(rig, 'shelf', 'book', 'lamp'), [200, 200, 404])
})

t.test('one that does not start keeps all of the change from being made', async (t) => {
  const told: string[] = []
  const lamp = one('lamp', told, { fails: () => true })
  const rig = await startPlugin(t, bystander,
    { plugins: [one('shelf', told)], off: [one('cup', told), lamp] })
  const before = (await rig.inject({ url: '/v1/plugins' })).json<object>()
  told.length = 0
  t.match(await put(rig, {
    'plugins.shelf.enabled': false, 'plugins.cup.enabled': true, 'plugins.lamp.enabled': true
  }), { error: { reason: 'plugin_failed', message: /no luck with lamp.*svc\.yaml are unchanged/ } })
  t.same(told, ['-shelf', '+cup', '-cup', '+shelf'])
  t.same(await statuses(rig, 'shelf', 'cup', 'lamp'), [200, 404, 404])
  const list = (of: object): unknown => (of as { plugins: { name: string }[] }).plugins
    .toSorted((a, b) => a.name < b.name ? -1 : 1)
  t.same(list((await rig.inject({ url: '/v1/plugins' })).json()), list(before))
  t.same(rig.events, [], 'and nothing is told')
})

t.test('every plugin of which a file was changed is named, and told once', (t) => {
  const health = createHealth()
  health.declare(kernelManifest.conflicts)
  const bus = createBus({ strict: true, onError: () => { t.fail() }, onInvalid: () => { t.fail() } })
  bus.declare('kernel', kernelManifest.events)
  bus.open()
  const told: unknown[] = []
  bus.on('PluginChanged', ({ payload }) => { told.push(payload['plugin']) })
  const tell = changeReporter({ health, bus, nodeId: 'n1' })
  const of = (name: string): { name: string, file: string, message: string } =>
    ({ name, file: 'index.js', message: `"${name}": index.js has changed.` })
  const shown = (): string => health.snapshot().reasons.map(({ message }) => message).join()
  tell([of('a'), of('b')])
  t.match(shown(), /"a": index\.js has changed\. "b": index\.js has changed\./)
  tell([of('a'), of('b'), of('c')])
  t.match(shown(), /"c"/)
  tell([of('b')])
  t.notMatch(shown(), /"a"/)
  t.same(told, ['a', 'b', 'c'])
  tell([])
  t.equal(shown(), '')
  tell([of('a')])
  t.same(told, ['a', 'b', 'c', 'a'], 'changed once more')
  t.end()
})
