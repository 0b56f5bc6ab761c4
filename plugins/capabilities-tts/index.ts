import { definePlugin, kernelError } from '../../kernel/index.js'
import { InvocationService } from '../capabilities/service.js'
import { RunnersService } from '../runners/service.js'
import { ModelsService } from '../staging/service.js'
import { config, errors, routes, tts } from './declarations.js'
import { modelFor, type Aliases } from './openai-names.js'
import { SpeechService } from './service.js'
import { speak, speechHandler, toTask } from './speech.js'

export default definePlugin({
  name: 'capabilities-tts', version: '1.0.0', kernel: '^1.0.0',
  summary: 'Converts text to speech with placed voices, and streams the audio while it is generated.',
  requires: ['capabilities', 'runners'],
  consumes: { runners: RunnersService, invocations: InvocationService },
  consumesOptional: { models: ModelsService },
  provides: { speech: SpeechService },
  config, errors, routes,
  capabilities: { tts },
  engines: {
    'onnx-tts': {
      summary: 'Piper (VITS) and Kokoro voices and the bundled voice on onnxruntime.',
      module: new URL('./engine/index.js', import.meta.url).href,
      cards: new URL('./card-reader.js', import.meta.url).href,
      help: () => import('./cli/help.js'),
      backends: ['cpu', 'cuda', 'webgpu'],
      fixedBytes: 176 * 2 ** 20
    }
  },
  models: { 'svc/voice-en': { folder: new URL('./voice/', import.meta.url).href } },
  firstSteps: [
    'Try speech (in another terminal):',
    '  {svc} say "Hello from svc" -o hello.mp3{home}',
    "  {curl} {url}/v1/audio/speech -H 'content-type: application/json' \\",
    '    {token} \\',
    '    -d \'{"model":"svc/voice-en","input":"Hello from svc"}\' -o hello.mp3'
  ],
  verbs: {
    say: {
      heading: 'Use models', summary: 'Speak a text', args: '<text>',
      options: [
        ['-o, --output <file>', 'write the sound here, in the format of the name\'s extension'],
        ['--format <format>', 'mp3, opus, aac, flac, wav or pcm, whatever the extension'],
        ['--model <id>', 'model to speak with'],
        ['--voice <id>', 'voice of the model'],
        ['--speed <factor>', 'multiple of the voice\'s own tempo'],
        ['--node <id>', 'speak on another node'],
        ['--wait [seconds]', 'wait until a voice is ready']
      ],
      examples: ['svc say "Hello from svc" -o hello.mp3', 'echo "Good morning" | svc say - | mpg123 -'],
      load: () => import('./cli/say.js')
    }
  }
}, (ctx) => {
  const { runners, invocations } = ctx.deps
  const { loudness } = ctx.config
  const aliases: Aliases = {
    models: ctx.config.model_aliases as Record<string, string>,
    voices: ctx.config.voice_aliases as Record<string, string>, openai: ctx.config.openai_names
  }
  const { models } = ctx.deps
  if (models !== undefined) {
    ctx.effect('names of models', models.names(() => Object.entries(aliases.models)
      .map(([id, root]) => ({ id, root }))))
  }
  return {
    services: {
      speech: {
        speak: (body, call) =>
          speak({ runners, loudness }, toTask(body, aliases, runners.models('tts')), call)
      }
    },
    invoke: { tts: (input, call) => speak({ runners, loudness }, input, call) },
    routes: {
      speech: speechHandler({ runners, invocations, aliases, loudness, clock: ctx.clock }),
      voices: ({ query }) => {
        const speakers = runners.models('tts')
        const wanted = query.model === undefined ? undefined : modelFor(query.model, aliases, speakers)
        const models = speakers.filter(({ card }) => wanted === undefined || card.modelId === wanted)
        if (wanted !== undefined && models.length === 0) {
          throw kernelError('no_instance', `No speech model ${wanted} is known here.`, { model: wanted })
        }
        const voices = models.flatMap(({ card }) =>
          card.voices.map(({ id, name }) => ({ id, name, model: card.modelId })))
        return { object: 'list', data: voices, voices }
      },
      models: () => ({
        models: runners.models('tts').map(({ card: { modelId: id, title: name } }) => ({ id, name }))
      })
    }
  }
})
