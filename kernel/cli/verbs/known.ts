import { forgetKnownNodes, knownNodesFile, readKnownNodes } from '../known-nodes.js'
import type { Verb } from '../verb.js'

export const ls: Verb = {
  async run ({ out, home }) {
    const known = readKnownNodes(home)
    if (out.json) out.value({ known })
    else if (known.length === 0) out.line(`no node is known in ${knownNodesFile(home)}`)
    else out.table(['NODE', 'FINGERPRINT'], known.map(({ at, fingerprint }) => [at, fingerprint]))
  }
}

export const rm: Verb = {
  async run (ctx, [place]) {
    const forgotten = forgetKnownNodes(ctx.home, place!)
    if (forgotten.length === 0) {
      const file = knownNodesFile(ctx.home)
      throw ctx.fail(3, `no node at ${place!} is known in ${file}; \`svc known ls\` lists them`)
    }
    if (ctx.out.json) ctx.out.value({ forgotten })
    else for (const { at, fingerprint } of forgotten) ctx.out.line(`forgot ${at} ${fingerprint}`)
  }
}
