import { whyLibraryCannot } from '../../runners/service.js'
import { GGUF_ENGINE, LLAMA_SERVER } from '../engine.js'
import type { EngineHelp, VerbContext } from '../../../kernel/cli/index.js'
import { canAsk, confirm, ownHome, showBytes } from '../../../kernel/cli/index.js'
import { addBuild, ENGINE, planBuild } from '../builds/add.js'
import { BuildError } from '../builds/release.js'
import { withErrorText, withParts } from './adding.js'

/** The program of each engine by node, from GET /state; null if an engine's program is missing. */
type Seen = Record<string, { engines?: Record<string, { from?: string } | null> } | null>

export default {
  lacksProgram (card, { nodeResources = {} }: { nodeResources?: Seen }) {
    const onLibrary = whyLibraryCannot(LLAMA_SERVER.otherwise, card) === null
    const nodes = Object.values(nodeResources)
    return nodes.length > 0 && nodes.every((node) => {
      const driver = node?.engines?.[GGUF_ENGINE]
      return driver === null || (driver?.from === 'library' && !onLibrary)
    })
  },
  offer: offerEngine
} satisfies EngineHelp

/**
 * Offers to install llama.cpp for a verb whose model needs it; asks on the terminal unless `yes`. True once
 * llama.cpp is installed. False without a terminal, or if the node uses another home, in which this command
 * cannot install. @throws VerbError if the installation fails
 */
async function offerEngine (ctx: VerbContext, yes: boolean): Promise<boolean> {
  const home = ownHome(ctx.home, ctx.client.url)
  if (home === undefined || (!yes && !canAsk(ctx))) return false
  const wanted = { files: [], sha256: [], tag: undefined, backend: undefined }
  return await withParts({ ...ctx, home }, wanted, async (parts) => {
    const plan = await planBuild(parts).catch((error: unknown) => {
      if (error instanceof BuildError) ctx.err.line(`${ENGINE} cannot be downloaded: ${error.message}`)
      else throw error
    })
    if (plan === undefined) return false
    const what = `${ENGINE} ${plan.tag} for ${plan.backend} (${showBytes(plan.bytes)})`
    if (yes) ctx.err.line(`downloading ${what}`)
    else if (!await confirm(ctx, `The model needs ${ENGINE}. Download ${what}?`, { yes: true })) return false
    const { build } = await withErrorText(ctx, async () => await addBuild(parts))
    ctx.err.end()
    const devices = build.devices.join('; ') || 'the CPU'
    ctx.err.line(`${ENGINE} ${build.name} is installed; it computes on ${devices}`)
    return true
  })
}
