import { definePlugin } from '../../kernel/index.js'
import { manifest } from './manifest.js'
import { startNode } from './node/node.js'
import type { Caller } from '../../kernel/index.js'

const isOperator = ({ authorities }: Caller): boolean => authorities.has('operator')

/** Brings this node to the relay of its settings, and tells devices where the cluster's nodes are met. */
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
