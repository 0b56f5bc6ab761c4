import {
  badField, CallerService, CommandService, definePlugin, kernelError, TokenService, TracerService
} from '../../kernel/index.js'
import { ListeningService } from '../capabilities-stt/service.js'
import { SpeechService } from '../capabilities-tts/service.js'
import { ChatService } from '../chat/service.js'
import { RunnersService, type Runners } from '../runners/service.js'
import { clientEvents } from './client-events.js'
import { ClientSecrets } from './client-secrets.js'
import { config, errors, routes } from './declarations.js'
import { closeCodes } from './event-socket.js'
import { RealtimeSession, type Parts } from './session.js'
import { defaultSession, shownSession, updated } from './session-config.js'

/** OpenAI's names of realtime models, and those of models that listen. */
const REALTIME = /^gpt-(realtime|audio|4o-(mini-)?realtime)/
const LISTENERS = /^(whisper-1|gpt-4o-(mini-)?transcribe|gpt-realtime-whisper)/

/** OpenAI's Realtime API, from the language models, voices and listeners of the cluster. */
export default definePlugin({
  name: 'realtime',
  version: '1.0.0',
  kernel: '^1.0.0',
  summary: 'Holds conversations by voice through OpenAI\'s Realtime API.',
  requires: ['capabilities', 'runners'],
  consumes: {
    callers: CallerService, commands: CommandService, runners: RunnersService, tokens: TokenService,
    tracers: TracerService
  },
  consumesOptional: { stt: ListeningService, chat: ChatService, speech: SpeechService },
  config, errors, routes
}, (ctx) => {
  const { clock, log, deps } = ctx
  const { callers, commands, runners, tracers } = deps
  const { chat, stt, tts, sessions: most } = ctx.config
  const secrets = new ClientSecrets({ clock, tokens: deps.tokens })
  ctx.effect('client secrets', callers.register(secrets))
  const checks = new Map<string, (event: unknown) => string | null>(
    Object.entries(clientEvents).map(([type, schema]) => [type, ctx.checker(schema)]))
  const sessions = new Set<RealtimeSession>()
  const parts: Parts = {
    clock, log, commands, tracers,
    stt: () => deps.stt, chat: () => deps.chat, speech: () => deps.speech,
    chatModel: (name) => REALTIME.test(name) ? chat ?? readyModel(runners) : name,
    checkModel: (name) => {
      const tasks = REALTIME.test(name) ? ['chat'] : runners.card(deps.chat?.modelOf(name) ?? name)?.tasks
      if (tasks?.includes('chat') !== true) throw badField('model', `"${name}" is no language model here`)
    },
    speechModel: tts ?? 'tts-1',
    sttModel: (listening, name = 'whisper-1') =>
      LISTENERS.test(name) ? stt ?? listening.modelFor('whisper-1') : listening.modelFor(name),
    problemOf: (type, event) => checks.get(type)!(event)
  }
  const refuse = (message: string): never => { throw ctx.error('websocket_only', message) }
  return {
    routes: {
      socket: (ws, { caller, signal, query: { model = 'gpt-realtime', intent } }) => {
        if (sessions.size >= most) {
          ws.close(closeCodes.busy, `${most} sessions are open, the limit of plugins.realtime.sessions`)
          return
        }
        const type = intent === 'transcription' ? { type: 'transcription' } : {}
        const config = secrets.sessionOf(caller) ?? updated(defaultSession(model), type)
        const session = new RealtimeSession(ws, caller, config, parts)
        sessions.add(session)
        ws.on('close', () => { sessions.delete(session) })
        signal.addEventListener('abort', () => { session.close(closeCodes.stopping, 'the node is stopping') })
      },
      secret: ({ body: { expires_after: after, session = { type: 'realtime' } }, caller }) => {
        const config = updated(defaultSession(session.model ?? 'gpt-realtime'), session)
        return { ...secrets.create(caller, after?.seconds ?? 600, config), session: shownSession(config) }
      },
      calls: () => refuse('WebRTC is not served.'),
      sessions: () => refuse('This route belongs to the API before it became generally available.')
    }
  }
})

/** The language model for OpenAI's names, the same on all nodes. Throws `no_instance`. */
function readyModel (runners: Runners): string {
  const [first] = runners.models('chat')
    .filter(({ card, ready }) => ready && card.engine !== 'steward').map(({ card }) => card.modelId).sort()
  if (first !== undefined) return first
  throw kernelError('no_instance', 'No language model is ready.',
    { remedy: 'Place one: `svc place MODEL`; `svc ls` lists them.' })
}
