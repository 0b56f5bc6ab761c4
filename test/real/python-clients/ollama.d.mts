export const VERSION: string
export function ollama (): { program: string, missing?: undefined } | { program?: undefined, missing: string }
