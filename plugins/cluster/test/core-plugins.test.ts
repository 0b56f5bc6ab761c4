import t, { type Test } from 'tap'
import { definePlugin, type Context, type Plugin } from '../../../kernel/api/plugin.js'
import { kernelError } from '../../../kernel/api/errors.js'
import { ClusterService, SessionService } from '../../../kernel/api/services.js'
import { startPlugin } from '../../../kernel/testing/index.js'
import { coreCluster, failure } from './core-kit.js'
import { kernelsOn } from './core-rig.js'

const number = { type: 'integer' } as const
const manifest = {
  name: 'probe', version: '1.0.0', kernel: '^1.0.0', summary: 'Decides.',
  consumes: { cluster: ClusterService, session: SessionService },
  sections: { sums: { writer: 'master', summary: 'Sums.', value: number } },
  commands: {
    add: {
      summary: 'Adds.',
      args: { type: 'object', additionalProperties: false, required: ['n'], properties: { n: number } },
      result: number
    },
    fail: { summary: 'Fails.', args: { type: 'object' }, result: number }
  }
} as const

type Probe = Context<typeof manifest>

function probe (take: (ctx: Probe) => void): Plugin {
  return definePlugin(manifest, (ctx) => {
    take(ctx)
    const { sums } = ctx.sections
    return {
      commands: {
        add ({ n }) {
          sums.put('sum', (sums.get('sum') ?? 0) + n)
          return sums.get('sum')!
        },
        fail () { throw kernelError('overloaded', 'Enough.') }
      }
    }
  })
}

type Start = (t: Test, plugin: Plugin) => Promise<unknown>
const oneMember: Start = async (t, plugin) =>
  await kernelsOn(t, await coreCluster(t, { nodes: 1 }), { plugins: [plugin] })
const kinds: [string, Start][] = [['a cluster of one', startPlugin], ['a cluster with one member', oneMember]]

for (const [kind, start] of kinds) t.test(`a plugin decides through its commands: ${kind}`, async (t) => {
  let ctx: Probe | undefined
  await start(t, probe((given) => { ctx = given }))
  const { command, sections: { sums }, deps } = ctx!
  t.equal(await command('add', { n: 6 }), 6)
  t.equal(await command('add', { n: 1 }, 'one id'), 7)
  t.equal(await command('add', { n: 1 }, 'one id'), 7, 'the same id is the same command')
  t.equal(sums.get('sum'), 7)
  t.match(await failure(command('fail', {})), { reason: 'overloaded', message: 'Enough.' })
  t.match(await failure((async () => { sums.put('sum', 1) })()), { reason: 'not_master' })
  await t.rejects(command('add', { n: 'six' } as never), /command "add" of "probe".*n/)
  await t.rejects(command('add', {} as never), TypeError)
  await t.rejects(command('sub' as never, {} as never), /has not declared the command "sub"/)
  t.equal(sums.get('sum'), 7, 'and nothing of these was written')
  t.match(deps.session, { isMaster: true, masterNodeId: ctx!.node.nodeId })
  t.strictSame(deps.cluster.nodes().map(({ self, live, master }) => ({ self, live, master })),
    [{ self: true, live: true, master: true }])
  t.match(await failure(deps.cluster.request(ctx!.node.installId, {
    method: 'GET', path: '/state', caller: { id: 'a', mode: 'direct', authorities: new Set() }
  })), { reason: 'internal' }, 'a node does not ask itself')
})

t.test('what is declared and what is returned must be the same', async (t) => {
  const check = async (commands: Record<string, unknown> | undefined, message: RegExp): Promise<void> => {
    const plugin = { manifest, start: () => commands === undefined ? {} : { commands } } as unknown as Plugin
    await t.rejects(startPlugin(t, plugin), message)
  }
  const add = (): number => 1
  await check(undefined, /returned nothing for the declared command "add"/)
  await check({ add }, /returned nothing for the declared command "fail"/)
  await check({ add, fail: add, more: add }, /returned the command "more"/)
})
