import { definePlugin, type Caller } from '../../kernel/index.js'
import { manifest } from './manifest.js'
import { startNode } from './node/node.js'

const isOperator = ({ authorities }: Caller): boolean => authorities.has('operator')

/** Connects this node to its relay, and serves the cluster's relay addresses to devices. */
export default definePlugin(manifest, (ctx) => {
  const node = startNode(ctx, Math.random)
  return {
    routes: {
      own: ({ caller }) => isOperator(caller) ? node.view() : { ...node.view(), url: null, reason: null },
      meetings: ({ caller }) => ({
        routes: isOperator(caller) || caller.mode !== 'direct'
          ? [...ctx.sections.relayMeetings.entries()].map(({ value }) => value)
          : []
      })
    }
  }
})
