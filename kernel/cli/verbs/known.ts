import { forgetKnownNodes, knownNodesFile, readKnownNodes } from '../known-nodes.js'
import type { Verb } from '../verb.js'

export const ls: Verb = {
  async run ({ out, home }) {
    const known = readKnownNodes(home)
    if (out.json) out.value({ known })
    else if (known.length === 0) out.line(`there are no known nodes in ${knownNodesFile(home)}`)
    else out.table(['NODE', 'FINGERPRINT'], known.map(({ at, fingerprint }) => [at, fingerprint]))
  }
}

export const rm: Verb = {
  async run (ctx, [place]) {
    const forgotten = forgetKnownNodes(ctx.home, place!)
    if (forgotten.length === 0) {
      const file = knownNodesFile(ctx.home)
      throw ctx.fail(3, `there is no known node at ${place!} in ${file}; \`svc known ls\` lists them`)
    }
    if (ctx.out.json) ctx.out.value({ forgotten })
    else for (const { at, fingerprint } of forgotten) ctx.out.line(`forgot ${at} ${fingerprint}`)
  }
}
