import t from 'tap'
import { sortByDependency, transitive } from '../plugins/graph.js'
import { checkManifests } from '../plugins/registry.js'
import type { Manifest } from '../api/plugin.js'

const plugin = (name: string, more: Partial<Manifest> = {}): Manifest =>
  ({ name, version: '1.0.0', kernel: '^1.0.0', summary: 'A plugin.', ...more })

interface Row {
  title: string
  plugins: Manifest[]
  disabled?: string[]
  demanded?: string[]
  order?: string[]
  down?: string[]
  problems?: RegExp[]
}

function check (row: Row): void {
  t.test(row.title, (t) => {
    const got = sortByDependency({
      manifests: row.plugins, disabled: new Set(row.disabled), demanded: new Set(row.demanded)
    })
    if (row.order !== undefined) t.same(got.order, row.order)
    t.same(got.down.map((d) => d.plugin), row.down ?? [])
    t.equal(got.problems.length, row.problems?.length ?? 0, got.problems.join('\n'))
    for (const [i, pattern] of (row.problems ?? []).entries()) t.match(got.problems[i], pattern)
    t.end()
  })
}

check({ title: 'no plugin at all', plugins: [], order: [] })
check({ title: 'needs come first', order: ['c', 'b', 'a'],
  plugins: [plugin('a', { requires: ['b'] }), plugin('b', { requires: ['c@^1.0.0'] }), plugin('c')] })
check({ title: 'without needs the given order stays', order: ['z', 'a'],
  plugins: [plugin('z'), plugin('a')] })
check({ title: 'after orders, and means nothing when absent', order: ['b', 'a'],
  plugins: [plugin('a', { after: ['b', 'nowhere'] }), plugin('b')] })
check({ title: 'two of one name', plugins: [plugin('a'), plugin('a')],
  problems: [/2 plugins are named "a"/] })
check({ title: 'a missing need', plugins: [plugin('a', { requires: ['b'] })],
  problems: [/"a" requires "b", which is not installed/] })
check({ title: 'a wrong version', plugins: [plugin('a', { requires: ['b@^2.0.0'] }), plugin('b')],
  problems: [/requires b@\^2\.0\.0, found 1\.0\.0/] })
check({ title: 'a wrong kernel', plugins: [plugin('a', { kernel: '^9.0.0' })],
  problems: [/written for kernel \^9\.0\.0/] })
check({ title: 'a circle shows its path', order: ['d'], problems: [/a -> b -> c -> a/],
  plugins: [
    plugin('a', { requires: ['b'] }), plugin('b', { requires: ['c'] }), plugin('c', { requires: ['a'] }),
    plugin('d')
  ] })
check({ title: 'a disabled need takes its dependants down, all the way',
  disabled: ['c'], order: [], down: ['b', 'a'],
  plugins: [plugin('a', { requires: ['b'] }), plugin('b', { requires: ['c'] }), plugin('c')] })
check({ title: 'what was switched on by name is not taken down silently',
  disabled: ['b'], demanded: ['a'], down: ['a'], problems: [/svc plugin enable b/],
  plugins: [plugin('a', { requires: ['b'] }), plugin('b')] })
const speaks = plugin('a', { capabilities: {} })
check({ title: 'whoever declares capabilities starts after the plugin that serves them',
  plugins: [speaks, plugin('capabilities')], order: ['capabilities', 'a'] })
check({ title: 'and is off without it', plugins: [speaks, plugin('capabilities')],
  disabled: ['capabilities'], demanded: ['a'], order: [], down: ['a'],
  problems: [/"a" is off because it requires "capabilities", .*`svc plugin enable capabilities`/] })
check({ title: 'and needs it to be there', plugins: [speaks],
  problems: [/"a" requires "capabilities", which is not installed/] })
check({ title: 'every problem at once', problems: [/2 plugins/, /kernel/, /nowhere/],
  plugins: [plugin('a'), plugin('a'), plugin('b', { kernel: '^9.0.0', requires: ['nowhere'] })] })

t.test('transitive needs', (t) => {
  const list = [plugin('a', { requires: ['b'] }), plugin('b', { requires: ['c@*'] }), plugin('c')]
  t.same([...transitive('a', new Map(list.map((m) => [m.name, m])))], ['b', 'c'])
  t.end()
})

const error = { status: 400, retryable: false, message: 'No.', remedy: 'Do something else.' }
const conflict = { severity: 'warn', meaning: 'x', remediation: 'y' } as const
const route = { method: 'GET', url: '/x', summary: 's', authority: 'read' } as const
const event = { plane: 'durable', summary: 's', payload: { type: 'object' } } as const
const capability = {
  id: 'x',
  version: '1.0.0',
  title: 't',
  description: 'd',
  io_mode: 'unary',
  input_schema: { type: 'object' },
  annotations: {}
} as const
const tool = { summary: 's', args: { type: 'object' }, load: async () => await Promise.reject(new Error()) }

const twice: [string, Partial<Manifest>, RegExp][] = [
  ['route', { routes: { a: route } }, /route "GET \/x" is declared by both "a" and "b"/],
  ['event', { events: { Happened: event } }, /event "Happened" is declared by both/],
  ['error reason', { errors: { too_odd: error } }, /error reason "too_odd" is declared by both/],
  ['conflict code', { conflicts: { odd: conflict } }, /conflict code "odd" is declared by both/],
  ['authority', { authorities: { 'x.y': 'z' } }, /authority "x.y" is declared by both/],
  ['capability', { capabilities: { x: capability } }, /capability "x@1.0.0" is declared by both/],
  ['state key of the kernel', { state: { instances: 'Mine.' } },
    /state key "instances" is declared by both "a" and "b"/],
  ['section', { sections: { s: { writer: 'node', summary: 's', value: {} } } },
    /section "s" is declared by both/],
  ['tool', { tools: { look_up: tool } }, /tool "look_up" is declared by both/]
]
for (const [what, part, message] of twice) {
  t.test(`two owners of one ${what}`, (t) => {
    t.match(checkManifests([plugin('a', part), plugin('b', part)]).join('\n'), message)
    t.end()
  })
}

const bad: [string, Partial<Manifest>, RegExp][] = [
  ['the kernel owns its reasons', { errors: { no_instance: error } },
    /"no_instance" is declared by both "kernel" and "a"/],
  ['the kernel owns its authorities', { authorities: { read: 'x' } },
    /authority "read" is declared by both "kernel"/],
  ['a tool with capitals', { tools: { lookUp: tool } }, /"lookUp" must be a snake_case word/],
  ['a route without authority', { routes: { a: { method: 'GET', url: '/x', summary: 's' } as never } },
    /declares no authority/],
  ['a route with an unknown authority', { routes: { a: { ...route, authority: 'root' } } },
    /unknown authority "root"/],
  ['a route with an unknown reason', { routes: { a: { ...route, errors: ['nope'] } } },
    /error "nope" is declared neither/],
  ['a service nobody provides', { consumes: { s: { id: 'ghost' } } },
    /consumes the service "ghost"/],
  ['an error without remedy', { errors: { too_odd: { ...error, remedy: '' } } }, /needs a remedy/],
  ['a reason that is no word', { errors: { 'Too-Odd': error } }, /must be a snake_case word/],
  ['a field that is none', { requirs: ['b'] } as never, /no field "requirs"; did you mean "requires"\?/],
  ['a field that is like none', { zzzzzz: 1 } as never, /no field "zzzzzz"$/],
  ['a name that is no name', { name: 'Not OK' }, /lower-case words/],
  ['an event that is no CamelCase word', { events: { happened: event } }, /must be CamelCase/]
]
for (const [what, part, message] of bad) {
  t.test(what, (t) => {
    t.match(checkManifests([plugin('a', part)]).join('\n'), message)
    t.end()
  })
}

t.test('the same parameter under another name is the same route', (t) => {
  const at = (url: string): Partial<Manifest> => ({ routes: { a: { ...route, url } } })
  t.match(checkManifests([plugin('a', at('/x/:one')), plugin('b', at('/x/:two'))]).join('\n'),
    /declared by both/)
  t.end()
})
