import { definePlugin } from '../../kernel/index.js'
import { manifest } from './manifest.js'
import { startNode } from './node/node.js'

/** Brings this node to the relay of its settings, and tells devices where the cluster's nodes are met. */
export default definePlugin(manifest, (ctx) => {
  const node = startNode(ctx, Math.random)
  return {
    routes: {
      own: () => node.view(),
      meetings: () => ({ routes: [...ctx.sections.relayMeetings.entries()].map(({ value }) => value) })
    }
  }
})
