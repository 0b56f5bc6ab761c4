import { builtIn } from '../builtin.js'
import { candidates } from '../completion.js'
import { ownersOf, readInstallation } from '../installed.js'
import { listingPath } from '../invoke.js'
import { globalOptions } from '../program.js'
import { helpTopics } from '../topics.js'
import { collectVerbs } from '../tree.js'
import type { Installation } from '../installed.js'
import type { Listing } from '../invoke.js'
import type { Verb } from '../verb.js'

export default {
  async run (ctx, words) {
    let read: Promise<Installation> | undefined
    const installation = (): Promise<Installation> => read ??= readInstallation(ctx, undefined)
    const manifests = (await installation()).plugins.map(({ manifest }) => manifest)
    const found = await candidates(words, collectVerbs(builtIn, manifests), globalOptions, {
      topics: () => Object.keys(helpTopics),
      plugins: async () => manifests.map(({ name }) => name),
      capabilities: async () => {
        const listing = await ctx.client.json<Listing>(listingPath())
        return listing.capabilities.map((c) => `${c.id}@${c.version}`)
      },
      settings: async () => {
        const { resolveConfig } = await import('../../config/resolve.js')
        const { raw, plugins } = await installation()
        const { config } = resolveConfig(raw, { owners: ownersOf(plugins), env: {} })
        return config.entries().map((entry) => entry.path)
      }
    })
    for (const word of found) ctx.out.line(word)
  }
} satisfies Verb
