import { builtIn } from '../builtin.js'
import { candidates } from '../completion.js'
import { listingPath } from '../invoke.js'
import { globalOptions } from '../program.js'
import { helpTopics } from '../topics.js'
import { collectVerbs } from '../tree.js'
import type { Listing } from '../invoke.js'
import type { Verb } from '../verb.js'

export default {
  async run (ctx, words) {
    const installation = async (): Promise<import('../installed.js').Installation> =>
      await (await import('../installed.js')).readInstallation(ctx, undefined)
    const found = await candidates(words, collectVerbs(builtIn, await ctx.plugins()), globalOptions, {
      topics: () => Object.keys(helpTopics),
      plugins: async () => (await installation()).plugins.map(({ manifest }) => manifest.name),
      capabilities: async () => {
        const listing = await ctx.client.json<Listing>(listingPath())
        return listing.capabilities.map((c) => `${c.id}@${c.version}`)
      },
      settings: async () => {
        const { resolveConfig } = await import('../../config/index.js')
        const { ownersOf } = await import('../installed.js')
        const { raw, plugins } = await installation()
        const { config } = resolveConfig(raw, { owners: ownersOf(plugins), env: {} })
        return config.entries().map((entry) => entry.path)
      }
    })
    for (const word of found) ctx.out.line(word)
  }
} satisfies Verb
