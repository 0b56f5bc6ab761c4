import type { ToolFormat } from './format.js'

/** `{"name": …, "parameters": …}` as the whole output, or after `<|python_tag|>`: Llama 3. */
export const llama: ToolFormat = {
  template: '',
  marker: '<|python_tag|>',
  bare: true,
  between: ';',
  argumentsKey: 'parameters',
  behindMarker: ({ call }) => [call]
}
