import { ok, plain, readSetting, warn } from '../../kernel/cli/index.js'
import type { Checker, ClusterState, EngineHelp } from '../../kernel/cli/index.js'
import type { OfferedDriver } from '../runners/service.js'
import { ENGINE } from './descriptions.js'
import { findPrograms, wordsOf, type Settings } from './find.js'

interface State extends ClusterState {
  nodeResources?: Record<string, { engines?: Record<string, Pick<OfferedDriver, 'gangs'> | null> } | null>
}

/** Nodes whose svc.yaml allows programs to exchange unencrypted traffic with other nodes. */
export const doctor: Checker = {
  run: async ({ state }) => Object.entries((state as State).nodeResources ?? {}).flatMap(([id, all]) => {
    const { gangs = {} } = all?.engines?.[ENGINE] ?? {}
    const first = Object.values(gangs).find(({ network }) => network !== undefined)
    if (first === undefined) return []
    const node = plain(state.nodeIdentities[id]?.friendlyName ?? id)
    const [name, about] = [`collectives of ${node}`, { code: 'collectives', about: [node] }]
    return [first.problem === null
      ? ok(name, `programs exchange unencrypted traffic with other nodes by ${plain(first.network!)}`, about)
      : warn(name, plain(first.problem), 'Correct svc.yaml on that node, and restart it.', about)]
  })
}

export default {
  async programs (ctx) {
    const { io: { env } } = ctx
    const settings = await readSetting(ctx, 'plugins.openai-programs') as Settings
    const host = { platform: process.platform, env, uid: process.getuid?.() ?? 0 }
    return findPrograms(settings, host).map((found) =>
      ({ words: wordsOf(found), path: found.path, problem: found.problem }))
  }
} satisfies EngineHelp
