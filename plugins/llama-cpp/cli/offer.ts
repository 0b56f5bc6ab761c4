import { canAsk, confirm, ownHome, showBytes } from '../../../kernel/cli/index.js'
import { addBuild, ENGINE, planBuild } from '../builds/add.js'
import { BuildError } from '../builds/release.js'
import { withErrorText, withParts } from './adding.js'
import type { VerbContext } from '../../../kernel/cli/index.js'

/**
 * Offers to bring llama.cpp to the node that is asked, for a verb whose model runs on it: asks on a terminal,
 * unless `yes`. True when it is there now. False where nobody can be asked, and where the node is not one of
 * this home, whose disk a command line does not reach. Throws VerbError where it did not work.
 */
export async function offerEngine (ctx: VerbContext, yes: boolean): Promise<boolean> {
  const home = ownHome(ctx.home, ctx.client.url)
  if (home === undefined || (!yes && !canAsk(ctx))) return false
  const wanted = { files: [], sha256: [], tag: undefined, backend: undefined }
  return await withParts({ ...ctx, home }, wanted, async (parts) => {
    const plan = await planBuild(parts).catch((error: unknown) => {
      if (error instanceof BuildError) ctx.err.line(`${ENGINE} cannot be fetched: ${error.message}`)
      else throw error
    })
    if (plan === undefined) return false
    const what = `${ENGINE} ${plan.tag} for ${plan.backend} (${showBytes(plan.bytes)})`
    if (yes) ctx.err.line(`fetching ${what}`)
    else if (!await confirm(ctx, `The model runs on ${ENGINE}. Fetch ${what}?`, { yes: true })) return false
    const { build } = await withErrorText(ctx, async () => await addBuild(parts))
    ctx.err.end()
    ctx.err.line(`${ENGINE} ${build.name} is added; it computes on ${build.devices.join('; ') || 'the CPU'}`)
    return true
  })
}
