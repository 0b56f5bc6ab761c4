import access from './access/index.js'
import approvals from './approvals/index.js'
import audit from './audit/index.js'
import capabilities from './capabilities/index.js'
import capabilitiesStt from './capabilities-stt/index.js'
import capabilitiesTts from './capabilities-tts/index.js'
import chat from './chat/index.js'
import cluster from './cluster/index.js'
import dashboard from './dashboard/index.js'
import devices from './devices/index.js'
import diagnostics from './diagnostics/index.js'
import eventLog from './event-log/index.js'
import llamaCpp from './llama-cpp/index.js'
import logs from './logs/index.js'
import mcp from './mcp/index.js'
import openaiPrograms from './openai-programs/index.js'
import packages from './packages/index.js'
import placement from './placement/index.js'
import realtime from './realtime/index.js'
import relay from './relay/index.js'
import runners from './runners/index.js'
import staging from './staging/index.js'
import steward from './steward/index.js'
import tracing from './tracing/index.js'
import upstreams from './upstreams/index.js'
import wyoming from './wyoming/index.js'
import type { Plugin } from '../kernel/index.js'

/** The plugins that ship with svc: the only list of them. */
export const bundled: readonly Plugin[] = [
  cluster, packages, capabilities, access, audit, approvals, devices, relay, runners, placement,
  capabilitiesTts, capabilitiesStt, llamaCpp, openaiPrograms, chat, staging, tracing, diagnostics, eventLog,
  logs, steward, dashboard, mcp, realtime, upstreams, wyoming
]
