/** Checks which tool and call formats svc detects in each chat template in llama.cpp's source. */
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { ChatTemplate } from '../../plugins/llama-cpp/text/template.js'
import { programs, skipGenerated, template } from './kit.js'

/** Templates with which svc supports tools, grouped by the format of their calls. */
const FORMATS: Record<string, string[]> = {
  hermes: ['Bielik-11B-v3.0-Instruct', 'MiMo-VL', 'NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use',
    'NousResearch-Hermes-3-Llama-3.1-8B-tool_use', 'Qwen-QwQ-32B', 'Qwen-Qwen2.5-7B-Instruct',
    'Qwen-Qwen3-0.6B', 'Reka-Edge', 'ibm-granite-granite-4.0', 'ibm-granite-granite-4.1'],
  qwen_coder: ['NVIDIA-Nemotron-3-Nano-30B-A3B-BF16', 'Qwen3-Coder', 'Qwen3.5-4B', 'StepFun3.5-Flash'],
  glm: ['GLM-4.6', 'GLM-4.7-Flash', 'Spark2.5', 'inclusionai-ling-3.0-flash', 'poolside-Laguna-S-2.1',
    'poolside-Laguna-XS-2.1', 'poolside-Laguna-XS.2'],
  mistral: ['mistralai-Mistral-Nemo-Instruct-2407'],
  mistral_named: ['Mistral-Small-3.2-24B-Instruct-2506', 'mistralai-Ministral-3-14B-Reasoning-2512',
    'unsloth-mistral-Devstral-Small-2507'],
  command: ['Cohere2MoE', 'CohereForAI-c4ai-command-r7b-12-2024-tool_use'],
  nemotron: ['NVIDIA-Nemotron-Nano-v2'],
  gemma: ['google-gemma-4-31B-it', 'google-gemma-4-31B-it-interleaved'],
  granite: ['ibm-granite-granite-3.3-2B-Instruct'],
  harmony: ['openai-gpt-oss-120b'],
  lfm: ['LFM2-8B-A1B', 'LFM2.5-8B-A1B', 'LFM2.5-Instruct'],
  llama: ['meta-llama-Llama-3.1-8B-Instruct', 'meta-llama-Llama-3.2-3B-Instruct',
    'meta-llama-Llama-3.3-70B-Instruct']
}

t.test('every template of the source', { skip: skipGenerated }, async (t) => {
  const known = new Map(Object.entries(FORMATS).flatMap(([format, each]) =>
    each.map((name) => [name, format])))
  const names = readdirSync(join(programs, '../../models/templates'))
    .filter((name) => name.endsWith('.jinja')).map((name) => name.replace('.jinja', ''))
  t.ok(names.length > 60)
  for (const name of names) {
    const { tools: { way, format } } = new ChatTemplate(new Map([['default', template(name)]]),
      { bos_token: '<s>', eos_token: '</s>' })
    t.equal(way === null ? undefined : format ?? undefined, known.get(name), name)
  }
})
