export function openWebui (): { program: string, missing?: undefined } | { program?: undefined, missing: string }
